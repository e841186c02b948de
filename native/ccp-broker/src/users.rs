//! Mosquitto's password files: a line `NAME:$7$ITERATIONS$SALT$HASH` a user, as `mosquitto_passwd` writes them.

use std::collections::HashMap;
use std::num::NonZeroU32;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::pbkdf2;

const HASH_BYTES: usize = 64;

/// A line that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct UserError {
    /// Which line, from 1.
    pub line: usize,
    /// Why not.
    pub why: &'static str,
}

#[derive(Debug)]
struct Secret {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// Who may connect.
#[derive(Debug)]
pub struct Users(HashMap<String, Secret>);

impl Users {
    /// Reads a password file; empty lines and comments are passed over.
    ///
    /// # Errors
    /// The first line that is none of `mosquitto_passwd`'s since Mosquitto 2.
    pub fn parse(text: &str) -> Result<Self, UserError> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, secret) = parse_line(line).map_err(|why| UserError { line: index + 1, why })?;
            users.insert(name, secret);
        }
        Ok(Self(users))
    }

    /// Whether this is the user's password.
    pub fn allow(&self, user: &str, password: &str) -> bool {
        self.0.get(user).is_some_and(|secret| {
            pbkdf2::verify(
                pbkdf2::PBKDF2_HMAC_SHA512,
                secret.iterations,
                &secret.salt,
                password.as_bytes(),
                &secret.hash,
            )
            .is_ok()
        })
    }
}

fn parse_line(line: &str) -> Result<(String, Secret), &'static str> {
    let (name, rest) = line.split_once(':').ok_or("no colon behind the user's name")?;
    let fields: Vec<&str> = rest.split('$').collect();
    let ["", "7", iterations, salt, hash] = fields[..] else {
        return Err("no PBKDF2 hash ($7$...) behind the user's name: use mosquitto_passwd of Mosquitto 2");
    };
    let iterations = iterations.parse().map_err(|_| "the iterations are no number")?;
    let salt = BASE64_STANDARD.decode(salt).map_err(|_| "the salt is no Base64")?;
    let hash = BASE64_STANDARD.decode(hash).map_err(|_| "the hash is no Base64")?;
    if hash.len() != HASH_BYTES {
        return Err("the hash has not the 64 bytes of SHA-512");
    }
    Ok((name.to_owned(), Secret { iterations, salt, hash }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `mosquitto_passwd -b FILE anna secret` and `... ben 'p:$ä'`, Mosquitto 2.0.
    const FILE: &str = "anna:$7$101$lm6M9QpXjd7JR6In$VRXtNyfjQ3UvVVE49yNCgv/CRJ2xHfrf92cUFhTvtJelsrDkLFLb57V7CV94WzW0XllzV9FkjgJTsnN93BJGFQ==\n\
         ben:$7$101$BF+qEIbX6jar88uU$8kzDT6/c46DPb+ZreDN8Vq1T/DZMGkn6RqPHMoKatmRpbQGzYY83BoI/l8EqirvTaOdZ4dPk3ypPRk45mFXukQ==";

    #[test]
    fn users_have_their_own_passwords() {
        let users = Users::parse(FILE).unwrap();
        assert!(users.allow("anna", "secret"));
        assert!(users.allow("ben", "p:$ä"));
        assert!(!users.allow("anna", "p:$ä"));
        assert!(!users.allow("anna", ""));
        assert!(!users.allow("carl", "secret"));
        assert!(!users.allow("", ""));
    }

    #[test]
    fn comments_and_empty_lines_are_passed_over() {
        let users = Users::parse(&format!("# users\n\n{FILE}\r\n")).unwrap();
        assert!(users.allow("ben", "p:$ä"));
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        let hash = BASE64_STANDARD.encode([0; HASH_BYTES]);
        for (line, part) in [
            ("anna", "colon"),
            ("anna:secret", "PBKDF2"),
            ("anna:$6$c2FsdA==$aGFzaA==", "PBKDF2"),
            (&format!("anna:$7$no$c2FsdA==${hash}"), "iterations"),
            (&format!("anna:$7$0$c2FsdA==${hash}"), "iterations"),
            (&format!("anna:$7$101$!${hash}"), "salt"),
            ("anna:$7$101$c2FsdA==$!", "hash"),
            ("anna:$7$101$c2FsdA==$aGFzaA==", "64 bytes"),
        ] {
            let error = Users::parse(&format!("# users\n{line}\n")).unwrap_err();
            assert_eq!(error.line, 2, "{line}");
            assert!(error.why.contains(part), "{line}: {error}");
        }
    }
}
