//! Addresses on the command line: `host:port`, or several with commas between.

/// Takes a host, by name or by number, and a port. IPv6 numbers stand in brackets.
///
/// # Errors
/// What is expected, for the command line.
pub(crate) fn host_and_port(text: &str) -> Result<String, String> {
    let is_plausible = |host: &str| {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_bracketed = bare.is_some();
        let bare = bare.unwrap_or(host);
        let is_foreign = |letter: char| letter.is_whitespace() || "[]/".contains(letter);
        !bare.is_empty() && !bare.contains(is_foreign) && (is_bracketed || !bare.contains(':'))
    };
    match text.rsplit_once(':').filter(|(host, _)| is_plausible(host)) {
        Some((_, port)) if port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        Some((_, port)) if !port.is_empty() && port.bytes().all(|letter| letter.is_ascii_digit()) => {
            Err(format!("there is no port {port}, the last one is {}", u16::MAX))
        }
        _ => Err("expected HOST:PORT, such as 127.0.0.1:9092".to_owned()),
    }
}

/// The same of each of several.
///
/// # Errors
/// As `host_and_port`.
pub(crate) fn hosts_and_ports(text: &str) -> Result<String, String> {
    let each = text.split(',').map(|address| host_and_port(address.trim()));
    Ok(each.collect::<Result<Vec<_>, String>>()?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for text in ["h:1", "127.0.0.1:9092", "[::1]:65535", "log.example:0"] {
            assert_eq!(host_and_port(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "h",
            ":1",
            "h:",
            "h:x",
            "h:65536",
            "::1",
            "[]:1",
            "a b:1",
            "http://h:1",
        ] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_that_cannot_be_is_named() {
        let refused = host_and_port("127.0.0.1:80000");
        assert_eq!(
            refused,
            Err("there is no port 80000, the last one is 65535".to_owned())
        );
        let refused = hosts_and_ports("h:1,h:x").expect_err("no port");
        assert!(refused.starts_with("expected HOST:PORT, such as"), "{refused}");
    }

    #[test]
    fn several_addresses_have_commas_between() {
        assert_eq!(hosts_and_ports("a:1, b:2").as_deref(), Ok("a:1,b:2"));
        for text in ["", "a:1,", "a:1,b"] {
            assert!(hosts_and_ports(text).is_err(), "{text}");
        }
    }
}
