//! Headless Chromium from Debian's packages, unpacked below `target/` and driven over its DevTools protocol.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const PACKAGE: &str = "chromium-headless-shell";

/// The timeout of a condition of a page.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Flags that prevent connections to other servers than that of the page.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--window-size=1280,800",
    "about:blank",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    profile: PathBuf,
    /// The errors in the page's console and of its policy.
    pub errors: Vec<String>,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Panics
    /// Debian's packages are unavailable.
    pub fn start(name: &str) -> Self {
        let root = install_browser().unwrap_or_else(|error| panic!("{error}"));
        let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chromium-{name}"));
        let _ = fs::remove_dir_all(&profile);
        // The protocol uses the descriptors 3 and 4, which the shell maps to stdin and stdout.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"])
            .arg(root.join("usr/lib/chromium").join(PACKAGE))
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(FLAGS)
            .env("LD_LIBRARY_PATH", library_path(&root))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            session: None,
            sent: 0,
            profile,
            errors: Vec::new(),
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": page["targetId"], "flatten": true}),
        );
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol, and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params)
            .unwrap_or_else(|message| panic!("{method}: {message}"))
    }

    /// Calls a method like [`call`](Self::call). Returns the message with an error.
    pub fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.sent += 1;
        let mut request = json!({"id": self.sent, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let mut message = Vec::new();
            self.output.read_until(0, &mut message).unwrap();
            assert_eq!(message.pop(), Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.sent {
                return match message["error"].is_null() {
                    true => Ok(message["result"].clone()),
                    false => Err(message),
                };
            }
            self.record_error(&message);
        }
    }

    fn record_error(&mut self, event: &Value) {
        let error_methods = [
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
        ];
        if error_methods
            .iter()
            .any(|method| event["method"] == **method)
        {
            self.errors.push(event["params"].to_string());
        }
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) {
        let navigation = self.call("Page.navigate", json!({"url": url}));
        assert!(navigation["errorText"].is_null(), "{navigation}");
        self.wait_until(&format!(
            "location.href.startsWith({url:?}) && document.readyState === 'complete'"
        ));
    }

    /// Evaluates JavaScript in the page.
    #[track_caller]
    pub fn evaluate(&mut self, script: &str) -> Value {
        self.try_evaluate(script)
            .unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Evaluates JavaScript like [`evaluate`](Self::evaluate). Returns the exception, or the error of a page that was left meanwhile.
    fn try_evaluate(&mut self, script: &str) -> Result<Value, Value> {
        let params = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let mut result = self.try_call("Runtime.evaluate", params)?;
        match result["exceptionDetails"].is_null() {
            true => Ok(result["result"]["value"].take()),
            false => Err(result),
        }
    }

    /// Waits until a JavaScript expression is true in the page. A page that is loading may throw an exception until then.
    #[track_caller]
    pub fn wait_until(&mut self, script: &str) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let result = self.try_evaluate(script);
            if result == Ok(Value::Bool(true)) {
                return;
            }
            if Instant::now() > deadline {
                let body = self.try_evaluate("document.body.innerText");
                panic!(
                    "the condition did not become true: {script}: {result:?}\n{body:?}\n{:?}",
                    self.errors
                );
            }
            // The protocol has no event for the value of an expression, so this polls.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key.
    pub fn press_key(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Clicks the element that a selector finds, once the element does not move and no other element covers it.
    pub fn click(&mut self, selector: &str) {
        // The page may draw the element anew while this waits, so each look finds it again.
        let script = format!(
            "(async () => {{ const frame = () => new Promise(requestAnimationFrame); \
             const end = performance.now() + {}; let previous; \
             while (performance.now() < end) {{ await frame(); await frame(); \
             const element = document.querySelector({selector:?}); \
             if (!element) continue; \
             element.scrollIntoView({{block: 'center'}}); \
             const box = element.getBoundingClientRect(); \
             const center = [box.x + box.width / 2, box.y + box.height / 2]; \
             if (String(center) === previous && element.contains(document.elementFromPoint(...center))) return center; \
             previous = String(center); }} \
             throw new Error('no such element can be clicked'); }})()",
            WAIT_TIMEOUT.as_millis()
        );
        let center = self.evaluate(&script);
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": center[0], "y": center[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Switches the page to light or dark, and waits until it is drawn so. Control UI changes its colors by a script, some time after the switch.
    pub fn set_color_scheme(&mut self, scheme: &str) {
        // Without reduced motion, a screenshot may show the middle of a transition.
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.wait_until(&format!(
            "new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame)) \
             .then(() => getComputedStyle(document.documentElement).colorScheme.includes({scheme:?}))"
        ));
    }

    /// Takes screenshots on screens of three widths, in both color schemes. Checks that the page needs no horizontal scrolling.
    ///
    /// # Panics
    /// It is wider than a screen.
    pub fn assert_fits_screens(&mut self, name: &str) {
        for (width, scheme) in [360, 390, 1280]
            .into_iter()
            .flat_map(|width| ["light", "dark"].map(|scheme| (width, scheme)))
        {
            let metrics = json!({
                "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 1000,
            });
            self.call("Emulation.setDeviceMetricsOverride", metrics);
            self.set_color_scheme(scheme);
            self.wait_until(&format!(
                "innerWidth === {width} && document.documentElement.scrollWidth === {width}"
            ));
            self.screenshot(&format!("{name}-{width}-{scheme}.png"));
        }
        self.call("Emulation.clearDeviceMetricsOverride", json!({}));
        self.call("Emulation.setEmulatedMedia", json!({"features": []}));
    }

    /// Takes a screenshot (PNG), and stores it in `target/` under this name.
    pub fn screenshot(&mut self, name: &str) -> Vec<u8> {
        let screenshot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let png = STANDARD
            .decode(screenshot["data"].as_str().unwrap())
            .unwrap();
        let folder = target().join("screenshots");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), &png).unwrap();
        png
    }

    /// Returns the number of colors in a screenshot.
    pub fn count_colors(&mut self, png: &[u8]) -> u64 {
        // In another page, because the policy of the operator page blocks images.
        self.open("about:blank");
        let script = format!(
            "(async () => {{ const image = new Image(); image.src = 'data:image/png;base64,{}'; await image.decode(); \
             const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height; \
             const context = canvas.getContext('2d'); context.drawImage(image, 0, 0); \
             const data = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer); \
             return new Set(data).size; }})()",
            STANDARD.encode(png)
        );
        self.evaluate(&script).as_u64().unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// Returns cargo's target directory.
fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().unwrap().to_owned()
}

fn library_path(root: &Path) -> String {
    let own = root.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH));
    format!("{0}:{0}/pulseaudio", own.display())
}

/// Returns the directory of the unpacked packages, which concurrent tests unpack once.
fn install_browser() -> Result<PathBuf, String> {
    let folder = target().join("chromium");
    let root = folder.join("root");
    fs::create_dir_all(&root).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if !folder.join("complete").exists() {
        fetch(&folder, &root)?;
        let missing = output(
            Command::new("ldd")
                .arg(root.join("usr/lib/chromium").join(PACKAGE))
                .env("LD_LIBRARY_PATH", library_path(&root)),
        )?;
        if let Some(line) = missing.lines().find(|line| line.contains("not found")) {
            return Err(format!("chromium lacks a library: {}", line.trim()));
        }
        fs::write(folder.join("complete"), "").unwrap();
    }
    Ok(root)
}

/// Downloads and unpacks the browser and its missing dependencies. Installs nothing.
fn fetch(folder: &Path, root: &Path) -> Result<(), String> {
    let simulate_install = || {
        output(Command::new("apt-get").args(["-s", "install", "--no-install-recommends", PACKAGE]))
    };
    let plan = simulate_install().or_else(|_| {
        // The package lists may be missing. Without permission to fetch them, the second attempt reports the error.
        let _ = output(Command::new("apt-get").args(["-q", "update"]));
        simulate_install()
    })?;
    let packages = plan.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        (fields.next() == Some("Inst")).then(|| fields.next())?
    });
    let packages: Vec<&str> = packages.collect();
    output(
        Command::new("apt-get")
            .args(["-q", "-o", "APT::Sandbox::User=root", "download"])
            .args(if packages.is_empty() {
                vec![PACKAGE]
            } else {
                packages
            })
            .current_dir(folder),
    )?;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg").arg("-x").arg(&path).arg(root))?;
            fs::remove_file(&path).unwrap();
        }
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String, String> {
    let hint = "this test needs Chromium from Debian's packages; run it on Debian or Ubuntu where `apt-get download \
               chromium-headless-shell` works";
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?} does not start ({error}); {hint}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(format!("{command:?} failed ({error}); {hint}"))
        }
    }
}
