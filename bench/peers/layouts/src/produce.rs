//! A producer's way into a log: units go into the committer's queue, answers come back on a queue of its own.

use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bench::contract::payload::Payloads;
use bench::contract::producers::{Appender, Completed};

use crate::committer::{Answer, Unit};
use crate::log::Log;

pub(crate) struct Producer<'a> {
    number: u32,
    payloads: &'a Payloads,
    queue: Sender<Unit>,
    reply: Sender<Answer>,
    answers: Receiver<Answer>,
    next_unit: u64,
    /// Buffers of units that were answered.
    spare: Vec<Vec<u8>>,
}

impl<'a> Producer<'a> {
    pub(crate) fn new(number: u32, payloads: &'a Payloads, log: &Log) -> Producer<'a> {
        let (reply, answers) = mpsc::channel();
        Producer {
            number,
            payloads,
            queue: log.queue(),
            reply,
            answers,
            next_unit: 0,
            spare: Vec::new(),
        }
    }

    fn take(&mut self, answer: Answer, completed: &mut Vec<Completed>) {
        completed.push(Completed {
            unit: answer.number,
            at: Instant::now(),
            failure: answer.failure,
        });
        self.spare.push(answer.bytes);
    }
}

impl Appender for Producer<'_> {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        let record_bytes = self.payloads.record_bytes();
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize((records.end - records.start) as usize * record_bytes, 0);
        for (record, out) in records.zip(bytes.chunks_exact_mut(record_bytes)) {
            self.payloads.write(self.number, record, out);
        }
        let unit = Unit {
            number: self.next_unit,
            shard,
            entry_bytes: record_bytes,
            bytes,
            reply: self.reply.clone(),
        };
        self.next_unit += 1;
        self.queue
            .send(unit)
            .map_err(|_| anyhow!("the log's committer has died"))
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        let before = completed.len();
        while let Ok(answer) = self.answers.try_recv() {
            self.take(answer, completed);
        }
        if completed.len() == before
            && !wait.is_zero()
            && let Ok(answer) = self.answers.recv_timeout(wait)
        {
            self.take(answer, completed);
            while let Ok(answer) = self.answers.try_recv() {
                self.take(answer, completed);
            }
        }
    }
}
