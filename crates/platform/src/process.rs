//! Use of resources by a process so far, from the `/proc` file system: for status pages and for the bench's tables.
//!
//! Reading it costs two small files; it is not for hot paths.

use std::time::Duration;
use std::{fs, io};

/// The resources that one process has used since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Processor time in user mode, over all threads, also ended ones.
    pub cpu_user: Duration,
    /// Processor time in the kernel on the process's behalf.
    pub cpu_system: Duration,
    /// Resident memory in bytes, now.
    pub rss_bytes: u64,
}

/// The usage of process `pid`. `NotFound` if there is none; `InvalidData` if the system's answer cannot be understood.
pub fn process_usage(pid: u32) -> io::Result<ProcessUsage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    parse(&stat, &statm).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("cannot read the usage of process {pid}"),
        )
    })
}

/// The bytes that process `pid` has caused to be written to storage (proc_pid_io(5), `write_bytes`): direct writes at once,
/// others when they make a page of the page cache dirty. `NotFound` if there is no such process, `PermissionDenied` if it is another
/// user's.
pub fn written_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    value.and_then(|value| value.parse().ok()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("cannot read what process {pid} has written"),
        )
    })
}

/// Says whether this process was told to live on when its terminal goes away, as `nohup` does (proc_pid_status(5), `SigIgn`).
pub fn ignores_hangup() -> io::Result<bool> {
    let text = fs::read_to_string("/proc/self/status")?;
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal 1 is the lowest bit.
    mask.map(|mask| mask & 1 == 1).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "cannot read which signals this process ignores",
        )
    })
}

/// Says whether the system puts all memory on huge pages, asked for or not (Linux, `transhuge.rst`); `false` where it cannot be known.
pub fn has_huge_pages_everywhere() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| chosen(&setting) == Some("always"))
}

/// The chosen word of those that a setting lists: the one in brackets.
fn chosen(setting: &str) -> Option<&str> {
    let (_, from) = setting.split_once('[')?;
    Some(from.split_once(']')?.0)
}

/// Reads proc_pid_stat(5) and proc_pid_statm(5): user and system time are fields 14 and 15 of the first, resident pages
/// field 2 of the second.
fn parse(stat: &str, statm: &str) -> Option<ProcessUsage> {
    // The second field is the program's name in brackets and may itself hold spaces and brackets, so the count starts
    // behind the last closing one.
    let behind_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let cpu_user = ticks(fields.next()?)?;
    let cpu_system = ticks(fields.next()?)?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let rss_bytes = pages.checked_mul(rustix::param::page_size() as u64)?;
    Some(ProcessUsage {
        cpu_user,
        cpu_system,
        rss_bytes,
    })
}

/// Clock ticks, as text, to time.
fn ticks(text: &str) -> Option<Duration> {
    let count: u64 = text.parse().ok()?;
    Some(Duration::from_secs_f64(
        count as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_one_chosen_word() {
        assert_eq!(chosen("[always] madvise never\n"), Some("always"));
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("always"), None);
    }

    #[test]
    fn tests_are_told_of_hangups_or_not() {
        assert!(ignores_hangup().is_ok());
    }

    #[test]
    fn this_process_has_memory_and_a_gone_one_is_not_found() {
        let usage = process_usage(std::process::id()).expect("we are running");
        assert!(usage.rss_bytes > 100_000, "{usage:?}");
        let missing = process_usage(u32::MAX).expect_err("pids end far below");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_written_can_be_read_of_this_process_only_if_it_is_there() {
        assert!(written_bytes(std::process::id()).is_ok());
        assert!(written_bytes(u32::MAX).is_err());
    }

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 9 0 0 0 250 30 0 0 20 0 1 0 5 0 0";
        let usage = parse(stat, "100 3 2 1 0 9 0").expect("well formed");
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(usage.cpu_user, Duration::from_secs_f64(250.0 / second));
        assert_eq!(usage.cpu_system, Duration::from_secs_f64(30.0 / second));
        assert_eq!(usage.rss_bytes, 3 * rustix::param::page_size() as u64);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(parse("", "1 2"), None);
        assert_eq!(parse("7 (x) S 1", "1 2"), None);
        assert_eq!(parse("7 (x) S 1 7 7 0 -1 4 9 0 0 0 z 30 0", "1 2"), None);
    }
}
