//! The driver of librdkafka: takes the comparison's commands and carries them out against a broker of Kafka's protocol.
//!
//! What is measured is librdkafka. So this gives it settings, hands it records one by one, and notes when they are
//! acknowledged or had; it must not batch, retry or cache by itself.

mod append;
mod follow;
mod read;
mod reports;
mod settings;
mod topics;

use std::io::{stdin, stdout};

use anyhow::{Context, Result};
use bench::contract::driver::{Events, System, serve};
use bench::contract::{Append, Create, Described, Done, Read};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .context("usage: drive ADDRESS, such as 127.0.0.1:9092 (commas between several)")?;
    serve(&mut Librdkafka { address }, stdin().lock(), &mut stdout())
}

/// librdkafka, and the brokers it is pointed at.
struct Librdkafka {
    address: String,
}

impl System for Librdkafka {
    fn describe(&mut self) -> Result<Described> {
        Ok(settings::described())
    }

    fn create(&mut self, create: &Create) -> Result<()> {
        topics::create(&self.address, create)
    }

    fn delete(&mut self, log: &str) -> Result<()> {
        topics::delete(&self.address, log)
    }

    fn leader(&mut self, log: &str) -> Result<Option<u32>> {
        topics::leader(&self.address, log)
    }

    fn makes_transactions(&self) -> bool {
        true
    }

    fn append(&mut self, append: &Append, events: &Events) -> Result<Done> {
        if append.follow {
            follow::append_and_follow(&self.address, append, events)
        } else {
            append::append(&self.address, append, events)
        }
    }

    fn read(&mut self, read: &Read, events: &Events) -> Result<Done> {
        read::read(&self.address, read, events)
    }
}
