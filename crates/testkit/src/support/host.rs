//! A real OpenClaw with a separate state. It does not use the state of the user.

use std::{
    fs,
    io::BufReader,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

use serde_json::{Value, json};

use super::{free_port, http, journal::Journal, node::Installed};

/// The token of the gateway.
pub const TOKEN: &str = "gateway-token-0123456789abcdef";

pub struct Host {
    installed: Arc<Installed>,
    root: PathBuf,
    gateway_port: u16,
    environment: Vec<(String, String)>,
}

impl Host {
    /// Empties `root` and creates a state there, with `config` as the rest of its configuration.
    /// `environment` is for SecretRefs.
    pub fn new(
        installed: Arc<Installed>,
        root: &Path,
        config: &Value,
        environment: &[(&str, &str)],
    ) -> Self {
        let _ = fs::remove_dir_all(root);
        fs::create_dir_all(root.join("workspace")).unwrap();
        let gateway_port = free_port();
        let mut config = config.clone();
        config["gateway"] = json!({"mode": "local", "bind": "loopback", "port": gateway_port, "auth": {"mode": "token", "token": TOKEN}});
        config["logging"] = json!({"file": root.join("openclaw.log")});
        config["agents"]["defaults"]["workspace"] = json!(root.join("workspace"));
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let host = Self {
            installed,
            root: root.to_owned(),
            gateway_port,
            environment,
        };
        host.write_config(&config);
        host
    }

    /// Returns the versions of OpenClaw and Node.js.
    pub fn versions(&self) -> (String, String) {
        let node = Command::new(self.installed.node())
            .arg("--version")
            .output()
            .unwrap();
        (
            self.cli(&["--version"]),
            String::from_utf8(node.stdout).unwrap().trim().to_owned(),
        )
    }

    /// Runs the command `openclaw`, which must succeed, and returns its output.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(
            output.status.success(),
            "`openclaw {}` failed: {stdout}\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        stdout
    }

    /// Installs a plugin without prompts, as a script does.
    pub fn install(&self, what: &str) {
        self.cli(&[
            "plugins",
            "install",
            what,
            "--force",
            "--accept-capabilities",
        ]);
    }

    /// Returns the configuration file.
    pub fn config(&self) -> Value {
        serde_json::from_slice(&fs::read(self.config_path()).unwrap()).unwrap()
    }

    /// Replaces the configuration file atomically, like an editor.
    pub fn edit_config(&self, change: impl FnOnce(&mut Value)) {
        let mut config = self.config();
        change(&mut config);
        self.write_config(&config);
    }

    /// Returns the folder of OpenClaw's state.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Returns the workspace of its agents.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Starts the gateway and waits until it is ready.
    pub fn boot(&self) -> Gateway {
        let mut child = self
            .command(&["gateway", "run"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Journal::new();
        follow(BufReader::new(child.stdout.take().unwrap()), &output);
        follow(BufReader::new(child.stderr.take().unwrap()), &output);
        let gateway = Gateway {
            child,
            output,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, self.gateway_port)),
        };
        gateway.output.wait("the gateway to be ready", |line| {
            line.ends_with("[gateway] ready")
        });
        gateway
    }

    /// Returns the command `openclaw` with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.installed.node());
        command
            .arg(self.executable())
            .args(arguments)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .envs(self.variables());
        command
    }

    /// Returns the command `openclaw`, which finds its Node.js in `PATH`.
    pub fn executable(&self) -> PathBuf {
        self.installed.package("openclaw").join("openclaw.mjs")
    }

    /// Returns the environment variables that select this state.
    pub fn variables(&self) -> Vec<(String, String)> {
        let node = self.installed.node();
        let path = std::env::var("PATH").unwrap_or_default();
        let place = |path: PathBuf| path.to_str().unwrap().to_owned();
        let own = [
            (
                "PATH",
                format!("{}:{path}", node.parent().unwrap().display()),
            ),
            ("OPENCLAW_HOME", place(self.root.join("home"))),
            ("OPENCLAW_STATE_DIR", place(self.state())),
            ("OPENCLAW_CONFIG_PATH", place(self.config_path())),
            ("OPENCLAW_NO_AUTO_UPDATE", "1".to_owned()),
            ("OPENCLAW_DISABLE_BONJOUR", "1".to_owned()),
            ("DO_NOT_TRACK", "1".to_owned()),
            ("NO_COLOR", "1".to_owned()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        own.into_iter()
            .chain(self.environment.iter().cloned())
            .collect()
    }

    fn config_path(&self) -> PathBuf {
        self.root.join("openclaw.json")
    }

    fn write_config(&self, config: &Value) {
        let next = self.root.join("openclaw.json.next");
        fs::write(&next, config.to_string()).unwrap();
        fs::rename(next, self.config_path()).unwrap();
    }
}

/// A running gateway. Dropping it stops it and waits for its end.
pub struct Gateway {
    child: Child,
    /// The output, line by line.
    pub output: Journal<String>,
    address: SocketAddr,
}

impl Gateway {
    pub fn socket(&self) -> super::socket::Socket {
        super::socket::Socket::connect(self.address, TOKEN)
    }

    /// Returns the process id of the gateway.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends `POST /tools/invoke`, and returns the status code and the answer.
    pub fn invoke(&self, arguments: Value) -> (u16, Value) {
        let body = json!({"tool": "remote_agent", "args": arguments});
        let (status, body) = http::post(self.address(), "/tools/invoke", TOKEN, &body.to_string());
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Sends a request like `invoke`, and returns the envelope of its answer.
    pub fn envelope(&self, arguments: Value) -> Value {
        let (status, answer) = self.invoke(arguments);
        assert_eq!(status, 200, "{answer}");
        answer["result"]["details"].clone()
    }
}

impl Gateway {
    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        let _ = self.child.wait();
    }
}

/// Adds the lines of a process to `output`.
pub fn follow(reader: impl std::io::BufRead + Send + 'static, output: &Journal<String>) {
    let output = output.clone();
    thread::spawn(move || {
        for line in reader.lines().map_while(Result::ok) {
            output.push(line);
        }
    });
}
