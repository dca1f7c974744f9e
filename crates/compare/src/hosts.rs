//! The hosts that nodes run on, where they are not all on this machine: their names, and how they are reached.
//!
//! A host has this program and the folders of the systems where this machine has them: the same checkout at the same path, the
//! same programs installed. Nothing is copied there.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};

/// One host of `--hosts`: `[USER@]NAME[=ADDRESS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name that ssh knows.
    pub(super) destination: String,
    /// The address where its node listens: a name as it was written, numbers once it was found.
    pub(super) address: String,
}

impl Host {
    /// The same host with its address in numbers: names have several, and systems tell of themselves by numbers.
    ///
    /// # Errors
    /// If this machine knows no IPv4 address of that name.
    pub(super) fn found(&self) -> Result<Host> {
        let Host { destination, address } = self;
        let found = (address.as_str(), 0).to_socket_addrs();
        let found = found.ok().and_then(|mut all| all.find(SocketAddr::is_ipv4));
        let found = found
            .with_context(|| format!("{address} has no IPv4 address here: write {destination}=ADDRESS"))?;
        Ok(Host {
            destination: destination.clone(),
            address: found.ip().to_string(),
        })
    }
}

impl FromStr for Host {
    type Err = Error;

    fn from_str(text: &str) -> Result<Host> {
        let (destination, address) = match text.split_once('=') {
            Some(both) => both,
            None => (text, text.rsplit('@').next().unwrap_or(text)),
        };
        let is_plain = |word: &str, more: &str| {
            !word.is_empty()
                && !word.starts_with('-')
                && word
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter))
        };
        ensure!(
            is_plain(destination, "@.-_") && is_plain(address, ".-"),
            "{text:?} is no host: write [USER@]NAME or [USER@]NAME=ADDRESS"
        );
        Ok(Host {
            destination: destination.to_owned(),
            address: address.to_owned(),
        })
    }
}

/// All of them, and how they are reached. None at all: all nodes are on this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Hosts {
    pub(super) all: Vec<Host>,
    /// The words of a command that runs another one on a host, whose name and that command come after them.
    pub(super) reach: Vec<String>,
}

impl Hosts {
    /// Their addresses, as reports tell them.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.all.iter().map(|host| host.address.clone()).collect()
    }

    /// The command that runs `program` with `argument` on a host. Both are one plain word each: ssh has a shell there read them.
    pub(super) fn command(&self, host: &Host, program: &str, argument: &str) -> Result<Vec<String>> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
        ensure!(
            program.chars().all(is_plain),
            "{program} cannot be run on other hosts: its path has letters that a shell takes for others"
        );
        let words = [host.destination.as_str(), program, argument];
        let all = self.reach.iter().map(String::as_str).chain(words);
        Ok(all.map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_a_name_and_an_address() {
        for (text, destination, address) in [
            ("localhost", "localhost", "127.0.0.1"),
            ("me@localhost", "me@localhost", "127.0.0.1"),
            ("me@ash=10.0.0.1", "me@ash", "10.0.0.1"),
        ] {
            let host: Host = text.parse().expect(text);
            let host = host.found().expect(text);
            assert_eq!(
                (host.destination.as_str(), host.address.as_str()),
                (destination, address)
            );
        }
        for text in [
            "",
            "=10.0.0.1",
            "localhost=",
            "-oProxyCommand=sh",
            "local host",
            "localhost;reboot",
            "ash=10.0.0.1:22",
        ] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
        let unknown: Host = "no-such-host.invalid".parse().expect("a host");
        let error = unknown.found().expect_err("nobody has this name").to_string();
        assert!(error.contains("no-such-host.invalid=ADDRESS"), "{error}");
    }

    #[test]
    fn a_command_there_is_plain_words() {
        let hosts = Hosts {
            all: vec!["me@ash=10.0.0.1".parse().expect("a host")],
            reach: vec!["ssh".to_owned(), "-T".to_owned()],
        };
        let command = hosts.command(&hosts.all[0], "/opt/compare", "agent");
        assert_eq!(
            command.expect("plain"),
            ["ssh", "-T", "me@ash", "/opt/compare", "agent"]
        );
        assert!(
            hosts
                .command(&hosts.all[0], "/opt/my files/compare", "agent")
                .is_err()
        );
    }
}
