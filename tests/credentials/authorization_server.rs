//! A real authorization server: oidc-provider, installed once under the target directory and started on loopback.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use crate::support::node::{Installed, install};
use crate::support::root;

const PIN: &str = "oidc-provider@8.8.1";

/// The secret of every client.
pub(crate) const SECRET: &str = "client secret/7f3a+opens==";

/// The running server. It exits when its stdin closes, with the test process.
pub(crate) struct Server {
    port: u16,
    _child: Child,
    _stdin: ChildStdin,
}

/// Returns the server of this test process, which the first test starts.
///
/// # Panics
/// The package cannot be installed on this machine.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| start(&install("authorization-server", &[PIN])))
}

impl Server {
    /// Returns its token endpoint.
    pub(crate) fn token_url(&self) -> String {
        format!("http://127.0.0.1:{}/token", self.port)
    }

    /// Returns its issuer.
    pub(crate) fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Opens an address in the browser of a person who consents, and returns the address at which it ends.
    pub(crate) fn browse(&self, url: &str) -> String {
        let url: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
        self.control(&format!("browse?url={url}"))
    }

    /// Returns the number of refreshes that this client requested.
    pub(crate) fn refreshes(&self, client: &str) -> usize {
        let count = self.control(&format!("refreshes?client={client}"));
        count.parse().unwrap()
    }

    /// Returns the private key of the client `signed`.
    pub(crate) fn key(&self) -> String {
        self.control("key")
    }

    /// Returns the number of tokens that this client requested.
    pub(crate) fn token_requests(&self, client: &str) -> usize {
        self.control(&format!("count?client={client}"))
            .parse()
            .unwrap()
    }

    /// Releases the answers to this slow client.
    pub(crate) fn release(&self, client: &str) {
        assert_eq!(self.control(&format!("release?client={client}")), "true");
    }

    /// Returns whether the token is still valid.
    pub(crate) fn is_active(&self, token: &str) -> bool {
        self.control(&format!("active?token={token}")) == "true"
    }

    fn control(&self, what: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "GET /control/{what} HTTP/1.0\r\nhost: localhost\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

fn start(installed: &Installed) -> Server {
    let home = installed.package("..");
    let log = home.join("server.log");
    let mut child = Command::new(installed.node())
        .arg(root("tests/credentials/authorization_server.mjs"))
        .arg(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a log beside the packages"))
        .spawn()
        .expect("node installed the packages");
    let stdin = child.stdin.take().expect("stdin is piped");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout is piped"))
        .read_line(&mut line)
        .expect("a line from the server");
    let port = line.trim().strip_prefix("READY ");
    let port = port.unwrap_or_else(|| panic!("it said {line:?}; see {}", log.display()));
    Server {
        port: port.parse().unwrap(),
        _child: child,
        _stdin: stdin,
    }
}
