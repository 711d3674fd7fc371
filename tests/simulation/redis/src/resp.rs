//! The Redis protocol, as a server reads and writes it.

/// A reply of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Status(&'static str),
    Error(String),
    Number(i64),
    Text(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
}

impl Reply {
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(text.into())
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// Appends the reply in RESP2.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Status(text) => out.extend(format!("+{text}\r\n").bytes()),
            Self::Error(text) => out.extend(format!("-{text}\r\n").bytes()),
            Self::Number(number) => out.extend(format!(":{number}\r\n").bytes()),
            Self::Text(bytes) => {
                out.extend(format!("${}\r\n", bytes.len()).bytes());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Self::Nil => out.extend(b"$-1\r\n"),
            Self::Array(replies) => {
                out.extend(format!("*{}\r\n", replies.len()).bytes());
                replies.iter().for_each(|reply| reply.write(out));
            }
        }
    }
}

/// Takes the next command from the start of the buffer, if it is complete.
pub fn next_command(buffer: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let count = line(buffer, &mut at, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = line(buffer, &mut at, b'$')?;
        words.push(buffer.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    if at > buffer.len() {
        return None;
    }
    buffer.drain(..at);
    Some(words)
}

fn line(buffer: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = buffer.get(*at..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    assert_eq!(rest[0], kind, "the client sends arrays of strings");
    *at += end + 2;
    std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_when_it_is_complete() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n";
        let mut buffer = Vec::new();
        for (index, byte) in bytes.iter().enumerate() {
            buffer.push(*byte);
            let command = next_command(&mut buffer);
            match index {
                20 => assert_eq!(command.unwrap(), [b"GET".to_vec(), b"\r\n".to_vec()]),
                34 => assert_eq!(command.unwrap(), [b"PING".to_vec()]),
                _ => assert_eq!(command, None, "{index}"),
            }
        }
    }
}
