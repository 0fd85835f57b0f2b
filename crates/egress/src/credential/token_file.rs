//! The tokens of people who signed in, each in a file that only its owner may read.
//!
//! A process locks a file before it uses the refresh token in it: servers that rotate refresh tokens take a second use for a
//! theft, and end the sign-in.

use std::fs::{Metadata, TryLockError};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::files::{self, FileVersion, LockedFile};
use base::json::{self, Limits};
use base::text::{hex, shell_word};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

/// How long a process waits for another one that refreshes the same token: longer than that may take.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(90);

/// The interval of attempts to lock a file.
const LOCK_INTERVAL: Duration = Duration::from_millis(25);

/// The interval in which a process looks whether another one has replaced or removed the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum size of a file with a token, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 256 * 1024;

/// The file of the token of a target, or of one person at a target.
#[derive(Clone)]
pub struct TokenFile {
    dir: PathBuf,
    /// The target's name.
    pub alias: String,
    /// What the token is for: server, client, scopes and the target's addresses. With other settings it does not apply.
    identity: String,
    per_user: bool,
    /// The person, if each has a token of their own.
    pub user: Option<String>,
    seen: Arc<Mutex<Option<Seen>>>,
}

/// The file that this process has read or written last, and when it has looked at it.
struct Seen {
    version: Option<FileVersion>,
    at: Instant,
}

/// A stored token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredToken {
    /// The target's name.
    pub alias: String,
    /// The person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub(crate) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// The granted scopes, as the server listed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// When the person signed in, in seconds since 1970.
    pub signed_in_at: u64,
    /// When the token was issued, in seconds since 1970.
    pub issued_at: u64,
    /// When it expires, in seconds since 1970; `None` if the server named no lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl StoredToken {
    /// Returns whether the client can renew the token.
    pub fn is_renewable(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// Returns the tokens, which no output may show.
    pub fn secrets(&self) -> Vec<SecretString> {
        let refresh = self.refresh_token.iter();
        let tokens = std::iter::once(&self.access_token).chain(refresh);
        tokens.map(|token| token.clone().into()).collect()
    }
}

impl TokenFile {
    /// Creates the file of a target below `dir`. `identity` is what its token is for.
    pub fn new(dir: PathBuf, alias: String, identity: &[&str], per_user: bool) -> Self {
        Self {
            dir,
            alias,
            identity: serde_json::json!(identity).to_string(),
            per_user,
            user: None,
            seen: Arc::default(),
        }
    }

    /// Returns whether each person has a token of their own.
    pub fn is_per_user(&self) -> bool {
        self.per_user
    }

    /// Returns the file of a person.
    #[must_use]
    pub fn for_user(&self, user: Option<&str>) -> Self {
        Self {
            user: user.map(str::to_owned),
            seen: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the command that signs in.
    pub fn command(&self) -> String {
        let user = self.user.as_deref();
        let user = user.map(|user| format!(" --person {}", shell_word(user)));
        let alias = shell_word(&self.alias);
        format!("remote-agent sign-in {alias}{}", user.unwrap_or_default())
    }

    fn path(&self, extension: &str) -> PathBuf {
        let key = serde_json::json!([self.alias, self.identity, self.user]).to_string();
        let hash = digest(&SHA256, key.as_bytes());
        let name = hex(&hash.as_ref()[..16]);
        self.dir.join(name).with_extension(extension)
    }

    /// Reads the token; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, it belongs to another user, or it is no token of the target and the person.
    pub fn read(&self) -> io::Result<Option<StoredToken>> {
        self.read_checked(files::check_own_file)
    }

    /// Reads the token if `check` accepts its file.
    fn read_checked(
        &self,
        check: impl FnOnce(&Path, &Metadata) -> io::Result<()>,
    ) -> io::Result<Option<StoredToken>> {
        // Before the content: a later replacement then counts as a change.
        self.see();
        let path = self.path("json");
        let text = match files::read_checked(&path, MAX_FILE_BYTES, check) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let cause = match json::from_str::<StoredToken>(&text, Limits::NONE) {
            Ok(token) if token.alias == self.alias && token.user == self.user => {
                return Ok(Some(token));
            }
            // A copy would call the agent in the name of the other one.
            Ok(_) => "it is the token of another person or target",
            Err(_) => "its content is damaged",
        };
        Err(io::Error::other(format!("{cause}; sign in again")))
    }

    /// Reads like [`read`](Self::read), and blocks no other task.
    pub(crate) async fn read_async(&self) -> io::Result<Option<StoredToken>> {
        let file = self.clone();
        files::blocking(move || file.read()).await
    }

    /// Reads a token to revoke it, in particular one that others may read: they could use it.
    pub(crate) async fn read_to_revoke(&self) -> io::Result<Option<StoredToken>> {
        let file = self.clone();
        files::blocking(move || file.read_checked(|_, _| Ok(()))).await
    }

    /// Writes like [`write`](Self::write), and blocks no other task. The write goes on without the caller.
    pub(crate) async fn write_async(&self, token: &StoredToken) -> io::Result<()> {
        let (file, token) = (self.clone(), token.clone());
        files::blocking(move || file.write(&token)).await
    }

    /// Returns whether another process has replaced or removed the token since this one read or wrote it. Looks at most once in
    /// [`CHECK_INTERVAL`].
    pub(crate) async fn has_changed(&self) -> bool {
        let before = match &mut *self.seen.lock() {
            Some(seen) if seen.at.elapsed() >= CHECK_INTERVAL => {
                seen.at = Instant::now();
                seen.version
            }
            _ => return false,
        };
        let path = self.path("json");
        let now = files::blocking(move || Ok(FileVersion::at(&path))).await;
        now.is_ok_and(|now| now != before)
    }

    fn see(&self) {
        let version = FileVersion::at(&self.path("json"));
        let at = Instant::now();
        *self.seen.lock() = Some(Seen { version, at });
    }

    /// Replaces the token. The caller has the lock.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, token: &StoredToken) -> io::Result<()> {
        files::replace_private(&self.path("json"), &serde_json::to_string(token)?)?;
        self.see();
        Ok(())
    }

    /// Removes the token, and returns whether there was one. The caller has the lock.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self) -> io::Result<bool> {
        files::remove_durably(&self.path("json"))
    }

    /// Locks the file for this process, until the lock is dropped.
    ///
    /// # Errors
    /// The directory cannot be used, or another process keeps the lock for too long.
    pub async fn lock(&self) -> io::Result<LockedFile> {
        let (dir, path) = (self.dir.clone(), self.path("lock"));
        let file = files::blocking(move || {
            files::create_private_dir(&dir)?;
            let checked = files::check_private_dir(&dir);
            checked.map_err(|cause| {
                // The error names the directory anyway, so the command may too.
                let command = format!("`chmod o-w {}`", shell_word(&dir.to_string_lossy()));
                let cause = cause.replace("`chmod o-w`", &command);
                io::Error::other(format!("the directory {cause}"))
            })?;
            files::open_private_append(&path)
        });
        let file = file.await?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(LockedFile(file)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() > until => {
                    return Err(io::Error::other(
                        "another process does not release its lock",
                    ));
                }
                Err(TryLockError::WouldBlock) => sleep(LOCK_INTERVAL).await,
            }
        }
    }

    /// Returns the directory of the file.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Hash for TokenFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path("json").hash(state);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;
    use testkit::folder::Folder;

    fn file(folder: &Folder, identity: &str) -> TokenFile {
        TokenFile::new(folder.file("tokens"), "desk".into(), &[identity], true)
    }

    fn token(access: &str) -> StoredToken {
        StoredToken {
            alias: "desk".into(),
            user: Some("anna".into()),
            access_token: access.into(),
            refresh_token: None,
            scope: None,
            signed_in_at: 1,
            issued_at: 1,
            expires_at: None,
        }
    }

    #[tokio::test]
    async fn token_belongs_to_its_person_and_settings() {
        let folder = Folder::new();
        let anna = file(&folder, "https://a.example").for_user(Some("anna"));
        drop(anna.lock().await.unwrap());
        anna.write(&token("one")).unwrap();
        anna.write(&token("two")).unwrap();
        assert_eq!(anna.read().unwrap().unwrap().access_token, "two");
        for other in [
            file(&folder, "https://a.example").for_user(Some("bob")),
            file(&folder, "https://a.example"),
            file(&folder, "https://evil.example").for_user(Some("anna")),
        ] {
            assert!(other.read().unwrap().is_none());
        }
        assert!(anna.remove().unwrap() && !anna.remove().unwrap());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_may_read_a_token() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        let file = file(&folder, "").for_user(Some("anna"));
        drop(file.lock().await.unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        file.write(&token("one")).unwrap();
        let path = file.path("json");
        assert_eq!((mode(file.dir()), mode(&path)), (0o700, 0o600));
        for others in [0o644, 0o640, 0o602] {
            fs::set_permissions(&path, fs::Permissions::from_mode(others)).unwrap();
            let error = file.read().err().unwrap().to_string();
            let command = format!("`chmod 600 {}`", path.display());
            assert!(error.contains(&command), "{others:o}: {error}");
        }
        // A new sign-in needs no other command.
        file.write(&token("two")).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(file.read().unwrap().is_some());
    }

    #[tokio::test]
    async fn token_of_another_person_or_target_is_refused() {
        let folder = Folder::new();
        let anna = file(&folder, "").for_user(Some("anna"));
        drop(anna.lock().await.unwrap());
        anna.write(&token("one")).unwrap();
        let mut shop = anna.clone();
        shop.alias = "shop".to_owned();
        let own = anna.for_user(None);
        for other in [anna.for_user(Some("bob")), own, shop] {
            fs::copy(anna.path("json"), other.path("json")).unwrap();
            let error = other.read().err().unwrap().to_string();
            assert!(error.contains("another person or target"), "{error}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn directory_that_others_may_change_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        let file = file(&folder, "");
        fs::create_dir(file.dir()).unwrap();
        fs::set_permissions(file.dir(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = file.lock().await.err().unwrap();
        let command = format!("`chmod o-w {}`", file.dir().display());
        assert!(error.to_string().contains(&command), "{error}");
    }

    #[test]
    fn command_names_target_and_person() {
        let folder = Folder::new();
        let file = TokenFile::new(folder.file(""), "the desk".into(), &[], true);
        let command = file.for_user(Some("anna@example.com")).command();
        assert_eq!(
            command,
            "remote-agent sign-in 'the desk' --person anna@example.com"
        );
    }
}
