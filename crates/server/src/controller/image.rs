//! Writes the whole image into the metadata log when the log has grown, and trims away the commands that it stands for.
//!
//! No command comes in between, since whoever writes it holds the controller's turn; the log is trimmed only when all parts are
//! committed. A crash in between leaves a log that replays as it did before.

use std::rc::Rc;

use protocol::metadata::{Growth, ImagePart, ImageWriter, image_parts};
use record::{BatchBuilder, Compression, Offset};
use shard::{Acks, AppendRefusal, AppendRequest};

use super::Controller;
use crate::core::{Core, METADATA_PARTITION};

/// The log gets an image when its commands have come to this part of a journal file: 1 MiB as a rule.
const PARTS_OF_A_FILE: u64 = 256;
/// Bytes of an image that are written before others of the core have their turn.
const BYTES_IN_ONE_TURN: usize = 1 << 20;

impl Core {
    fn wants_image(&self, controller: &Controller) -> bool {
        let bytes_min = self.facts.config.journal.file_bytes / PARTS_OF_A_FILE;
        controller.growth.get().wants_image(bytes_min as usize)
    }

    /// On core 0: has an image written if the log wants one. Changes wait for it, but not this one.
    pub(crate) fn keep_log_short(self: &Rc<Self>) {
        let controller = self.controller.as_ref().expect("core 0 keeps the log");
        if self.metadata_log.is_none() && self.wants_image(controller) {
            let core = self.clone();
            platform::turns::spawn_own(async move { core.renew_image().await });
        }
    }

    async fn renew_image(self: Rc<Self>) {
        let controller = self.controller.as_ref().expect("core 0 keeps the log");
        let turn = controller.turn.lock().await;
        // Somebody else may have had the same thought.
        if !self.wants_image(controller) {
            return;
        }
        match self.write_image().await {
            Ok(growth) => controller.growth.set(growth),
            Err(refusal) => {
                let mut growth = controller.growth.get();
                growth.put_off();
                controller.growth.set(growth);
                tracing::debug!(%refusal, "no image of the metadata was written; it is tried again later");
            }
        }
        drop(turn);
        self.trim_to_image().await;
    }

    /// Writes the image behind the last command. Returns the log's growth when all of it is committed.
    async fn write_image(&self) -> Result<Growth, AppendRefusal> {
        let place = self
            .shard(0)
            .with_leader(METADATA_PARTITION, |leader| leader.next_offset())?;
        let mut writer = self.with_metadata(|image| ImageWriter::begin(image, place));
        while self.with_metadata(|image| writer.go_on(image, BYTES_IN_ONE_TURN)) {
            tokio::task::yield_now().await;
        }
        let image = writer.finish();
        for part in image_parts(place, &image) {
            self.journal_part(&part).await?;
        }
        tracing::info!(%place, bytes = image.len(), "the metadata log got an image of the metadata");
        Ok(Growth::since_image(place, image.len()))
    }

    async fn journal_part(&self, part: &ImagePart) -> Result<(), AppendRefusal> {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(self.facts.clock.wall_ms(), None, Some(&part.encode()), &[]);
        let (request, answer) = AppendRequest::new(METADATA_PARTITION, builder.build(), Acks::Quorum);
        self.shard(0).append(request.at_once());
        answer.await.unwrap_or(Err(AppendRefusal::Stopping)).map(|_| ())
    }

    /// On core 0: trims away what lies before the newest image. What cannot be trimmed now is with the next image, or the next start.
    pub(crate) async fn trim_to_image(&self) {
        let controller = self.controller.as_ref().expect("core 0 keeps the log");
        let first_kept = controller.growth.get().image_at.unwrap_or(Offset::ZERO);
        let log_start = self
            .shard(0)
            .with_leader(METADATA_PARTITION, |leader| leader.log_start());
        if log_start.is_ok_and(|log_start| log_start < first_kept)
            && let Err(refusal) = self.shard(0).trim(METADATA_PARTITION, first_kept).await
        {
            tracing::debug!(%refusal, "the metadata log was not trimmed; it is tried again later");
        }
    }
}
