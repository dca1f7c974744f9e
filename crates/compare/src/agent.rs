//! `ropewalk-compare agent`: does on a host what a comparison on another machine asks, one JSON object a line on standard input,
//! and answers each with one on standard output. When its input ends, so does all that it started.

use std::io::{BufRead, Write};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};

use super::interrupt::Interrupt;
use super::site::{Answer, Keeper, Request};

/// Serves one comparison until it goes away.
///
/// # Errors
/// If an answer cannot be written.
pub fn run() -> Result<()> {
    let interrupt = Interrupt::default();
    let (tell, requests) = mpsc::channel();
    let gone = interrupt.clone();
    // It must be heard of while a system is waited for, too.
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
        gone.set();
    });
    let mut keeper = Keeper::new(&interrupt);
    for line in requests {
        let answer = answer(&mut keeper, &line).unwrap_or_else(|error| Answer::Failed {
            why: format!("{error:#}"),
        });
        let text = serde_json::to_string(&answer).expect("an answer is plain data");
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .context("the comparison does not listen any more")?;
    }
    Ok(())
}

fn answer(keeper: &mut Keeper, line: &str) -> Result<Answer> {
    let request: Request = serde_json::from_str(line).context("this is no request")?;
    keeper.carry_out(request)
}
