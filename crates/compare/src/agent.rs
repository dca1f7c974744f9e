//! `ropewalk-compare agent`: does on a host what a comparison on another machine asks, one JSON object a line on standard input,
//! and answers each with one on standard output. When its input ends, so does all that it started.

use std::io::{BufRead, Write};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};

use super::interrupt::Interrupt;
use super::site::{Answer, Keeper, Numbered, Request};

/// Serves one comparison until it goes away.
///
/// # Errors
/// If it is asked what is no request.
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
        let request: Numbered<Request> = serde_json::from_str(&line).context("this is no request")?;
        let what = keeper
            .carry_out(request.what)
            .unwrap_or_else(|error| Answer::Failed {
                why: format!("{error:#}"),
            });
        let number = request.number;
        let text = serde_json::to_string(&Numbered { number, what }).expect("an answer is plain data");
        let mut out = std::io::stdout().lock();
        // If nobody listens any more, what was asked is done all the same, and the input ends soon.
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
    Ok(())
}
