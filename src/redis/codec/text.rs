//! What is asked and answered, as text: for clients that carry no bytes. `lua/text/` is the other end.
//!
//! A byte is the character of its number, so that it stays what it is wherever a text does: in a command, in UTF-8, in JSON.

use super::reply::Value;

/// Bytes as text.
#[must_use]
pub fn text_of(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The values of a reply: `~`, the time and the lengths of strings, each behind a colon; a semicolon, and the strings.
#[must_use]
pub fn values_of(text: &str) -> Option<Vec<Value>> {
    let (head, strings) = text.strip_prefix('~')?.split_once(';')?;
    let (now, lengths) = head.split_once(':')?;
    let mut bytes = Vec::with_capacity(strings.len());
    for character in strings.chars() {
        bytes.push(u8::try_from(character).ok()?);
    }
    let mut rest = &bytes[..];
    let mut values = vec![Value::Number(now.parse().ok()?)];
    for length in lengths.split(':') {
        let string = rest.split_off(..length.parse().ok()?)?;
        values.push(Value::Bytes(string.to_vec()));
    }
    rest.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = format!("~17:256:0;{}", text_of(&bytes));
        let values = [Value::Number(17), Value::Bytes(bytes), Value::Bytes(vec![])];
        assert_eq!(values_of(&text).as_deref(), Some(&values[..]));
    }

    #[test]
    fn what_is_no_reply_has_no_values() {
        for text in ["", "OK", "~", "~1;", "~1:2;a", "~1:1;ab", "~x:1;a", "~1:x;a", "~1:1;\u{100}"]
        {
            assert_eq!(values_of(text), None, "{text}");
        }
    }
}
