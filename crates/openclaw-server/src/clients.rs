//! The clients that the operator adds by commands, in `clients.json` of the state directory. The file contains only
//! digests of tokens. The server applies changes of the file while it runs.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use a2a_server::http::clients::{RegisteredClient, TokenDigest};
use base::files::{FileVersion, create_private, create_private_dir};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::config::ClientConfig;

/// The name of the file in the state directory.
const FILE: &str = "clients.json";

/// The maximum length of the file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The prefix of tokens, by which scanners recognize a leaked token.
const PREFIX: &str = "rat_";

/// The client file of a state directory.
#[derive(Debug, Clone)]
pub struct ClientFile {
    path: PathBuf,
}

/// An error of reading or changing the client file. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClientFileError(String);

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    clients: Vec<ClientConfig>,
}

impl ClientFile {
    /// Returns the client file of a state directory. The file may not exist yet.
    pub fn in_directory(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join(FILE),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the clients. Returns no clients if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not a client file of this server.
    pub fn read(&self) -> Result<Vec<ClientConfig>, ClientFileError> {
        let text = match base::files::read_bounded(&self.path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|error| self.failed("cannot be read", &error))?,
        };
        let written: Written = base::json::from_str(&text, base::json::Limits::NONE)
            .map_err(|error| self.failed("is no list of clients", &error))?;
        for client in &written.clients {
            let invalid = match (is_name(&client.name), client.proof()) {
                (true, Some(_)) => continue,
                (true, None) => "the digest of",
                (false, _) => "the name of a client",
            };
            let cause = format!("{invalid} `{}` is none", client.name.escape_debug());
            return Err(self.failed("is no list of clients", &cause));
        }
        Ok(written.clients)
    }

    /// Adds a client and returns its token. The file stores only the digest of the token.
    ///
    /// # Errors
    /// The name is invalid or in use, or the file cannot be written.
    pub fn add(&self, name: &str, operator: bool) -> Result<SecretString, ClientFileError> {
        if !is_name(name) {
            return Err(ClientFileError(
                "a client's name has 1 to 64 letters, digits, `_`, `-` and `.`, does not begin with `-` or `.`, and is not `loopback`".into(),
            ));
        }
        let token = generate_token()?;
        self.change(|clients| {
            if clients.iter().any(|client| client.name == name) {
                return Err(ClientFileError(format!(
                    "the client `{name}` already exists; replace its token with `remote-agent serve clients rotate {name}`, or remove it first with `remote-agent serve clients remove {name}`"
                )));
            }
            clients.push(ClientConfig {
                name: name.to_owned(),
                sha256: Some(TokenDigest::new(token.expose_secret()).hex()),
                operator,
                ..ClientConfig::default()
            });
            Ok(())
        })?;
        Ok(token)
    }

    /// Replaces the token of a client and returns the new token; `None` if the client does not exist.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn rotate(&self, name: &str) -> Result<Option<SecretString>, ClientFileError> {
        if !self.read()?.iter().any(|client| client.name == name) {
            return Ok(None);
        }
        let token = generate_token()?;
        let mut found = false;
        self.change(|clients| {
            for client in clients.iter_mut().filter(|client| client.name == name) {
                if client.sha256.is_none() {
                    return Err(ClientFileError(format!(
                        "the client `{name}` has no token to rotate: it is identified by its issuer or by a certificate"
                    )));
                }
                client.sha256 = Some(TokenDigest::new(token.expose_secret()).hex());
                found = true;
            }
            Ok(())
        })?;
        Ok(found.then_some(token))
    }

    /// Removes a client. Returns whether it existed.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, name: &str) -> Result<bool, ClientFileError> {
        if !self.read()?.iter().any(|client| client.name == name) {
            return Ok(false);
        }
        self.change(|clients| {
            clients.retain(|client| client.name != name);
            Ok(())
        })?;
        Ok(true)
    }

    /// Replaces the whole file atomically. Only its owner can read it.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<ClientConfig>) -> Result<(), ClientFileError>,
    ) -> Result<(), ClientFileError> {
        let failed = |error: &std::io::Error| self.failed("cannot be written", error);
        if let Some(folder) = self.path.parent() {
            create_private_dir(folder).map_err(|error| failed(&error))?;
        }
        let new_path = self.path.with_extension("json.new");
        // The new file is also a lock: only the process that created it may replace the old file.
        let mut file = match create_private(&new_path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(ClientFileError(format!(
                    "another process is changing the clients; try again, and delete `{}` if none is running",
                    new_path.display()
                )));
            }
            opened => opened.map_err(|error| failed(&error))?,
        };
        let written = (|| {
            let mut clients = self.read()?;
            change(&mut clients)?;
            let text = serde_json::to_string_pretty(&Written { clients })
                .map_err(|error| self.failed("cannot be written", &error))?;
            let stored = file
                .write_all(text.as_bytes())
                .and_then(|()| file.sync_all());
            stored
                .and_then(|()| fs::rename(&new_path, &self.path))
                .map_err(|error| failed(&error))
        })();
        if written.is_err() {
            let _ = fs::remove_file(&new_path);
        }
        written
    }

    fn failed(&self, what: &str, cause: &dyn std::fmt::Display) -> ClientFileError {
        ClientFileError(format!(
            "the file `{}` {what}: {cause}",
            self.path.display()
        ))
    }
}

/// Converts the clients to the form of the registry.
pub fn registered_clients(clients: &[ClientConfig]) -> Vec<RegisteredClient> {
    let known = clients.iter().filter_map(|client| {
        Some(RegisteredClient {
            name: client.name.clone(),
            proof: client.proof()?,
            operator: client.operator,
        })
    });
    known.collect()
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    begins
        && name.len() <= 64
        && name.chars().all(goes_on)
        && name != a2a_server::service::ANONYMOUS_CLIENT
}

/// Returns a new token with 256 random bits.
fn generate_token() -> Result<SecretString, ClientFileError> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ClientFileError("the system provides no random bytes".into()))?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)).into())
}

/// The interval between checks of the file. The requests of a removed client thus end within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Detects changes of the client file.
#[derive(Debug)]
pub struct ClientFileWatch {
    file: ClientFile,
    /// The version that the server has applied.
    last: Option<FileVersion>,
    /// The last version that could not be applied. Its error has been logged.
    failed: Option<Option<FileVersion>>,
}

impl ClientFileWatch {
    /// Creates a watch that detects every change after this call.
    #[must_use]
    pub fn new(file: &ClientFile) -> Self {
        let mut watch = Self {
            file: file.clone(),
            last: None,
            failed: None,
        };
        watch.last = watch.version();
        watch
    }

    /// Returns the current version of the file; `None` if the file does not exist.
    fn version(&self) -> Option<FileVersion> {
        FileVersion::at(self.file.path())
    }

    /// Calls `apply` with the clients after each change, while the future is polled. `apply` returns the total number
    /// of clients, or an error if it rejects them.
    pub async fn run(mut self, mut apply: impl FnMut(Vec<ClientConfig>) -> Result<usize, String>) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let version = self.version();
            if version == self.last {
                continue;
            }
            let read = self.file.read().map_err(|error| error.to_string());
            match read.and_then(&mut apply) {
                Ok(count) => {
                    (self.last, self.failed) = (version, None);
                    tracing::info!("reloaded the clients: {count}");
                }
                // A failed change is retried at each check, but logged only once.
                Err(error) => {
                    if self.failed.as_ref() != Some(&version) {
                        tracing::warn!("kept the previous clients: {error}");
                    }
                    self.failed = Some(version);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use a2a_server::http::clients::Proof;

    /// Returns a client file in a new directory, which is removed with the first value.
    fn client_file() -> (tempfile::TempDir, ClientFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = ClientFile::in_directory(&folder.path().join("new"));
        (folder, file)
    }

    #[test]
    fn only_the_digest_of_a_token_is_stored() {
        let (_folder, file) = client_file();
        assert!(file.read().unwrap().is_empty());
        let token = file.add("ada", false).unwrap();
        let operator = file.add("op", true).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(token.expose_secret()));
        let clients = file.read().unwrap();
        assert_eq!(
            registered_clients(&clients)[0].proof,
            Proof::Token(TokenDigest::new(token.expose_secret()))
        );
        assert_eq!((clients[0].operator, clients[1].operator), (false, true));
        assert_ne!(token.expose_secret(), operator.expose_secret());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let folder = file.path().parent().unwrap();
            for (path, expected) in [(file.path(), 0o600), (folder, 0o700)] {
                let mode = fs::metadata(path).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, expected);
            }
        }
    }

    #[test]
    fn name_is_unique_until_its_client_is_removed() {
        let (_folder, file) = client_file();
        let first = file.add("ada", false).unwrap();
        assert!(file.add("ada", false).is_err());
        assert!(file.remove("ada").unwrap());
        assert!(!file.remove("ada").unwrap());
        let second = file.add("ada", false).unwrap();
        assert_ne!(first.expose_secret(), second.expose_secret());
    }

    #[test]
    fn rotation_replaces_only_the_token() {
        let (_folder, file) = client_file();
        assert!(file.rotate("ada").unwrap().is_none());
        file.add("bob", false).unwrap();
        let before = file.add("ada", true).unwrap();
        let bob = file.read().unwrap().remove(0);
        let after = file.rotate("ada").unwrap().unwrap();
        assert_ne!(before.expose_secret(), after.expose_secret());
        let clients = file.read().unwrap();
        assert_eq!(clients[0], bob);
        assert_eq!(
            registered_clients(&clients)[1].proof,
            Proof::Token(TokenDigest::new(after.expose_secret()))
        );
        assert!(clients[1].operator);
    }

    #[test]
    fn client_names_are_valid_in_session_ids() {
        let (_folder, file) = client_file();
        let long = "a".repeat(65);
        for name in ["", "a b", ".a", "-a", "ä", "a/b", "loopback", &long] {
            assert!(file.add(name, false).is_err(), "{name}");
        }
        assert!(file.read().unwrap().is_empty());
        file.add("ada", false).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), text.replace("\"ada\"", "\"a/b\"")).unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("`a/b`"), "{error}");
    }

    #[test]
    fn invalid_client_file_is_not_overwritten() {
        let (_folder, file) = client_file();
        fs::create_dir(file.path().parent().unwrap()).unwrap();
        fs::write(file.path(), "{\"clients\": 1}").unwrap();
        assert!(file.add("ada", false).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "{\"clients\": 1}");
        assert!(!file.path().with_extension("json.new").exists());
    }

    /// Returns whether a watch sees what `change` does to a file with one client.
    fn sees(change: impl FnOnce(&ClientFile)) -> bool {
        let (_folder, file) = client_file();
        file.add("ada", false).unwrap();
        let watch = ClientFileWatch::new(&file);
        change(&file);
        watch.version() != watch.last
    }

    #[test]
    fn watch_sees_a_change_of_equal_time_and_length() {
        let (_folder, file) = client_file();
        let watch = ClientFileWatch::new(&file);
        file.add("ada", false).unwrap();
        assert_ne!(watch.version(), watch.last);
        assert!(!sees(|_| {}));
        assert!(sees(|file| drop(file.add("bob", false).unwrap())));
        let modified = |file: &ClientFile| fs::metadata(file.path()).unwrap().modified().unwrap();
        let set_modified = |path: &Path, time| {
            let file = fs::File::options().write(true).open(path);
            file.unwrap().set_modified(time).unwrap();
        };
        assert!(sees(|file| {
            let before = modified(file);
            file.remove("ada").unwrap();
            set_modified(file.path(), before);
        }));
        assert!(sees(|file| {
            let copy = file.path().with_extension("copy");
            fs::copy(file.path(), &copy).unwrap();
            set_modified(&copy, modified(file));
            fs::rename(&copy, file.path()).unwrap();
        }));
    }
}
