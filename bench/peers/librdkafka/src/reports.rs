//! A producer whose delivery reports are taken by whoever sends, the moment they come.
//!
//! The crate's own `poll` goes on until its time is up, even if a report came at once: a producer that sends one by one
//! would wait that long each time. So reports are taken from librdkafka's queue itself, which rings a bell (an eventfd)
//! when something is in it. This is the only file with `unsafe`; it must never touch the queue after the producer is gone.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::contract::producers::Completed;
use rdkafka::ClientConfig;
use rdkafka::bindings;
use rdkafka::client::ClientContext;
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer, ProducerContext};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// What librdkafka writes to the bell: an eventfd takes a number of eight bytes.
static RING: u64 = 1;

/// A producer whose records are numbered; the number comes back with the report.
pub(crate) struct ReportingProducer {
    producer: BaseProducer<Numbered>,
    queue: NonNull<bindings::rd_kafka_queue_t>,
    bell: OwnedFd,
}

/// Gives each record a number.
pub(crate) struct Numbered;

impl ClientContext for Numbered {}

impl ProducerContext for Numbered {
    type DeliveryOpaque = usize;

    // Called for what is left when the producer is dropped; nobody waits for it then.
    fn delivery(&self, _: &DeliveryResult<'_>, _: usize) {}
}

impl ReportingProducer {
    /// A producer with these settings.
    pub(crate) fn new(config: &ClientConfig) -> Result<ReportingProducer> {
        let producer: BaseProducer<Numbered> = config.create_with_context(Numbered)?;
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .context("cannot make an eventfd: too many files are open")?;
        // SAFETY: the client is alive, and stays so while `self` owns the producer.
        let queue = unsafe { bindings::rd_kafka_queue_get_main(producer.client().native_ptr()) };
        let queue = NonNull::new(queue).context("librdkafka has no main queue")?;
        // SAFETY: the queue was just had; `RING` lives for ever, and the bell until `drop` has hushed it.
        unsafe {
            bindings::rd_kafka_queue_io_event_enable(
                queue.as_ptr(),
                bell.as_raw_fd(),
                (&raw const RING).cast::<c_void>(),
                size_of_val(&RING),
            );
        }
        Ok(ReportingProducer {
            producer,
            queue,
            bell,
        })
    }

    /// The crate's own producer, to send with.
    pub(crate) fn producer(&self) -> &BaseProducer<Numbered> {
        &self.producer
    }

    /// Adds all reports there are to `completed`; if there are none, waits for some for at most `wait`.
    pub(crate) fn take_reports(&self, wait: Duration, completed: &mut Vec<Completed>) {
        if self.take_what_is_there(completed) || wait.is_zero() {
            return;
        }
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.wait_for_the_bell(left);
            // What is reported after this rings again.
            let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
            if self.take_what_is_there(completed) || left.is_zero() {
                return;
            }
        }
    }

    fn wait_for_the_bell(&self, wait: Duration) {
        let wait = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(&wait));
    }

    fn take_what_is_there(&self, completed: &mut Vec<Completed>) -> bool {
        let before = completed.len();
        loop {
            // SAFETY: the queue is alive until `drop`.
            let event = unsafe { bindings::rd_kafka_queue_poll(self.queue.as_ptr(), 0) };
            let Some(event) = NonNull::new(event) else {
                return completed.len() > before;
            };
            take_event(event, completed);
        }
    }
}

impl Drop for ReportingProducer {
    fn drop(&mut self) {
        // SAFETY: the producer, which owns what the queue belongs to, is dropped after this.
        unsafe {
            bindings::rd_kafka_queue_io_event_enable(self.queue.as_ptr(), -1, std::ptr::null(), 0);
            bindings::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// Adds the reports of an event, which is freed. Events that are no reports have no messages.
fn take_event(event: NonNull<bindings::rd_kafka_event_t>, completed: &mut Vec<Completed>) {
    let at = Instant::now();
    // SAFETY: the event was just polled and is freed once, after the last use of its messages.
    unsafe {
        while let Some(message) = bindings::rd_kafka_event_message_next(event.as_ptr()).as_ref() {
            completed.push(Completed {
                unit: message._private as u64,
                at,
                failure: failure(message.err),
            });
        }
        bindings::rd_kafka_event_destroy(event.as_ptr());
    }
}

fn failure(code: bindings::rd_kafka_resp_err_t) -> Option<String> {
    if code == bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    // SAFETY: librdkafka answers with a static text for every code.
    let text = unsafe { CStr::from_ptr(bindings::rd_kafka_err2str(code)) };
    Some(text.to_string_lossy().into_owned())
}
