//! The sign-in of a person to a target: by a command, or during the call that needs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::HttpClient;
use egress::auth::{TokenEndpoint, needs_sign_in};
use egress::credential::{Credential, Grant, OAuth2, StoredToken, TokenFile};
use egress::sign_in::{self, DeviceCode, Prompt, SignedOut};
use peer::Delivered;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use url::Url;

use super::call::Call;
use super::deadline::Deadline;
use super::error::{Reason, ToolError};
use super::question::{
    AnswerAction, Field, Person, Question, QuestionKind, SignInPrompt, question_id,
};
use super::request::Action;
use crate::targets::{Catalog, Target, for_user};

/// How long one question waits before it is asked again.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The pause before it is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the server may take to have the sign-in of a person who says that it is done. Then they are asked again.
const DONE_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Why no person was asked.
const UNREACHED: &str = "no person can be reached to sign in";

/// The sign-in of one target, or of one person at a target.
pub struct SignIn {
    client: Arc<OAuth2>,
    file: TokenFile,
    endpoint: TokenEndpoint,
    net: Arc<dyn HttpClient>,
    /// Scheme, host and port of the target.
    origin: String,
}

impl SignIn {
    /// Opens the sign-in of the target `alias`, or of the only one that needs a sign-in, for `user`.
    ///
    /// # Errors
    /// The target needs no sign-in; a sentence.
    pub(crate) fn find(
        catalog: &Catalog,
        net: Arc<dyn HttpClient>,
        alias: Option<&str>,
        user: Option<&str>,
    ) -> Result<Self, String> {
        let target = match alias {
            Some(alias) => {
                let named = |target: &&Arc<Target>| target.alias.as_deref() == Some(alias);
                catalog.targets().iter().find(named)
            }
            None => {
                let mut all = catalog.targets().iter();
                all.find(|target| token_file(target).is_some())
                    .filter(|_| all.all(|other| token_file(other).is_none()))
            }
        };
        let Some(target) = target else {
            return Err(match alias {
                Some(alias) => format!("no target is named `{}`", alias.escape_debug()),
                None => "name a target: not exactly one of them needs a sign-in".to_owned(),
            });
        };
        let name = target.alias.as_deref().unwrap_or_default();
        if let Some(reference) = &target.unresolved {
            return Err(format!("the secret `{reference}` of `{name}` has no value"));
        }
        let Some(sign_in) = Self::of(&for_user(target, user), net) else {
            return Err(format!(
                "`{name}` needs no sign-in: its `auth` has not the type `oauth2` with the grant `device_code` or `authorization_code`"
            ));
        };
        if sign_in.file.is_per_user() && user.is_none() {
            return Err(format!(
                "each person signs in to `{name}`: name the person as the host of the agent does, with `--person NAME`"
            ));
        }
        Ok(sign_in)
    }

    /// Returns the sign-in of a target, for the person of its credential; `None` if it needs none.
    fn of(target: &Target, net: Arc<dyn HttpClient>) -> Option<Self> {
        let (client, config) = (client(target)?, &target.peer_config);
        Some(Self {
            file: token_file(target)?,
            client: Arc::clone(client),
            endpoint: TokenEndpoint {
                allow_private: config.allow_private,
                trust: config.trust_elsewhere.clone(),
            },
            net,
            origin: config.base_url.origin().ascii_serialization(),
        })
    }

    /// Signs in and stores the token; see [`sign_in::sign_in`].
    ///
    /// # Errors
    /// The server or the person refuses, or the time is up; a sentence.
    pub async fn run(
        &self,
        show: impl FnMut(Prompt<'_>),
        pasted: mpsc::Receiver<String>,
    ) -> Result<StoredToken, String> {
        let signed_in = sign_in::sign_in(&*self.net, &self.client, &self.endpoint, show, pasted);
        signed_in.await.map_err(|error| error.to_string())
    }

    /// Removes the stored token, and revokes it if the server can; see [`sign_in::sign_out`].
    ///
    /// # Errors
    /// The file cannot be removed; a sentence.
    pub async fn sign_out(&self) -> Result<SignedOut, String> {
        let signed_out = sign_in::sign_out(&*self.net, &self.client, &self.endpoint);
        signed_out.await.map_err(|error| {
            let dir = self.file.dir().display();
            format!("cannot remove the stored token in `{dir}`: {error}")
        })
    }

    /// Returns the name of the target.
    pub fn alias(&self) -> &str {
        &self.file.alias
    }

    /// Signs in as [`run`](Self::run) does, with a person whom a host asks. The question is withdrawn when it is over: at the end
    /// of the sign-in, or when the future is dropped.
    ///
    /// # Errors
    /// Why there is no sign-in; a sentence.
    pub async fn ask(&self, person: &dyn Person) -> Result<StoredToken, String> {
        // A prompt and up to as many bad pastes as the sign-in allows.
        let (prompts, shown) = mpsc::channel(8);
        let (sender, pasted) = mpsc::channel(1);
        let show = |prompt: Prompt<'_>| {
            let _ = prompts.try_send(match prompt {
                Prompt::Device(code) => Shown::Question(Box::new(
                    self.question(code.complete_url.as_ref().unwrap_or(&code.url), Some(code)),
                )),
                Prompt::Browser(url) => Shown::Question(Box::new(self.question(url, None))),
                Prompt::PasteAgain(reason) => Shown::Again(reason),
            });
        };
        tokio::select! {
            biased;
            signed_in = self.run(show, pasted) => signed_in,
            ended = ask_person(person, shown, sender) => Err(ended),
        }
    }

    async fn is_needed(&self) -> bool {
        needs_sign_in(&*self.net, &self.client, &self.endpoint).await
    }

    /// Asks a person during a call, unless another call has a token meanwhile. Of the calls that wait for the same token one asks,
    /// and a person's refusal is for all of them. If the call `extends`, the time of a person does not count.
    ///
    /// # Errors
    /// The person does not sign in, or the call has ended. Nothing was sent to the agent.
    async fn ask_in_turn(
        &self,
        person: &dyn Person,
        deadline: &Deadline,
        extends: bool,
    ) -> Result<(), ToolError> {
        let began = Instant::now();
        let turn = deadline.run(self.client.signing_in.lock()).await;
        let mut last_refusal = turn.map_err(|error| match error.reason {
            Reason::Timeout => self.unavailable("another call is asking a person to sign in"),
            _ => error,
        })?;
        if let Some((at, reason)) = &*last_refusal
            && *at >= began
        {
            return Err(self.unavailable(reason));
        }
        let asking = async {
            if !self.is_needed().await {
                return Ok(());
            }
            let asked = self.ask(person).await.map(drop);
            // The host of another call may reach one.
            if let Some(reason) = asked.as_ref().err().filter(|reason| *reason != UNREACHED) {
                *last_refusal = Some((Instant::now(), reason.clone()));
            }
            asked
        };
        let asked = async {
            if extends {
                return asking.await;
            }
            timeout(deadline.before_end(), asking)
                .await
                .unwrap_or_else(|_| {
                    Err("no person signed in before the call's time was up".to_owned())
                })
        };
        let asked = deadline.run_without_limit(asked).await?;
        asked.map_err(|reason| self.unavailable(&reason))
    }

    fn unavailable(&self, reason: &str) -> ToolError {
        let command = self.file.command();
        let message = format!("{reason}. A person has to sign in: `{command}`");
        ToolError::new(Reason::TokenUnavailable, message)
    }

    fn question(&self, link: &Url, code: Option<&DeviceCode>) -> Question {
        let server = sign_in::server(&self.client);
        let user = self.file.user.as_deref().unwrap_or_default();
        let code = code.map(|code| code.user_code.clone());
        let text = match &code {
            Some(code) => format!("Sign in at {server}: open the link, and enter the code {code}."),
            None => format!(
                "Sign in at {server}: open the link. If the page at the end does not load, answer with its whole address."
            ),
        };
        Question {
            id: question_id(
                &["sign-in", &self.file.alias, user, link.as_str(), &text],
                &[],
            ),
            kind: QuestionKind::Auth,
            target: Some(self.file.alias.clone()),
            agent: None,
            origin: self.origin.clone(),
            chain: Vec::new(),
            task: None,
            continuation: None,
            text,
            fields: vec![Field::any_text()],
            url: Some(link.to_string()),
            sign_in: Some(SignInPrompt {
                server,
                takes_address: code.is_none(),
                code,
            }),
            warnings: Vec::new(),
            may_pass_to_model: false,
            timeout_ms: u64::try_from(QUESTION_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            error: None,
        }
    }
}

/// What a sign-in shows.
enum Shown {
    Question(Box<Question>),
    Again(&'static str),
}

/// Withdraws a question that is over.
struct Withdrawal<'a>(&'a dyn Person, String);

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.0.withdraw(&self.1);
    }
}

/// Asks the person what the sign-in shows, and passes on the addresses that they answer. Returns why the sign-in ends.
async fn ask_person(
    person: &dyn Person,
    mut shown: mpsc::Receiver<Shown>,
    pasted: mpsc::Sender<String>,
) -> String {
    let Some(Shown::Question(mut question)) = shown.recv().await else {
        return std::future::pending().await;
    };
    let _withdrawal = Withdrawal(person, question.id.clone());
    loop {
        let answer = loop {
            let asked = timeout(QUESTION_TIMEOUT, person.ask(&question)).await;
            match asked {
                Ok(answer) if answer.action != AnswerAction::Timeout => break answer,
                _ => sleep(PAUSE).await,
            }
        };
        match answer.action {
            AnswerAction::Answer => {}
            AnswerAction::Unreachable => return UNREACHED.to_owned(),
            _ => return "the person declined to sign in".to_owned(),
        }
        let words = answer
            .content
            .get("answer")
            .and_then(|words| words.as_str());
        // One without its beginning is asked for again.
        let address =
            words.filter(|words| Url::parse(words.trim()).is_ok() || words.contains("code="));
        match address.filter(|_| question.is_answered_with_address()) {
            Some(address) => {
                drop(pasted.send(address.to_owned()).await);
                let Some(Shown::Again(reason)) = shown.recv().await else {
                    return std::future::pending().await;
                };
                question.error = Some(reason.to_owned());
            }
            // The sign-in itself ends when its code expires.
            None => {
                sleep(DONE_TIMEOUT).await;
                question.error = Some("the server has no sign-in yet".to_owned());
            }
        }
    }
}

impl Question {
    fn is_answered_with_address(&self) -> bool {
        self.sign_in
            .as_ref()
            .is_some_and(|prompt| prompt.takes_address)
    }
}

impl super::RemoteAgent {
    /// Opens the sign-in of a target, as [`SignIn::find`] does.
    ///
    /// # Errors
    /// The target needs no sign-in; a sentence.
    pub(crate) fn sign_in(
        &self,
        alias: Option<&str>,
        user: Option<&str>,
    ) -> Result<SignIn, String> {
        let net = self.net.clone().ok_or("there is no network")?;
        SignIn::find(&self.catalog, net, alias, user)
    }

    /// Lets the person of a call sign in to its target if that is needed, and no message of the call would be refused otherwise. The
    /// call has its whole time again after a person took theirs.
    ///
    /// # Errors
    /// The person does not sign in, a budget has no room, or the call has ended. Nothing was sent to the agent.
    pub(super) async fn sign_in_first(&self, call: &mut Call<'_>) -> Result<(), ToolError> {
        let sign_in = self.net.clone();
        let sign_in = sign_in.and_then(|net| SignIn::of(&call.target, net));
        let sign_in = sign_in.filter(|one| !one.file.is_per_user() || one.file.user.is_some());
        let (Some(sign_in), Some(person)) = (sign_in, call.person.person) else {
            return Ok(());
        };
        let unsent = |error: ToolError| error.delivered(Delivered::No);
        let is_needed = call.deadline.run(sign_in.is_needed()).await;
        if !is_needed.map_err(unsent)? {
            return Ok(());
        }
        if call.action == Action::Send {
            call.check_budget().await.map_err(unsent)?;
        }
        let asked = sign_in.ask_in_turn(person, &call.deadline, call.person.extends);
        asked.await.map_err(unsent)?;
        call.renew_deadline();
        Ok(())
    }
}

fn client(target: &Target) -> Option<&Arc<OAuth2>> {
    match target.peer_config.credential.as_deref()? {
        Credential::OAuth2(client) => Some(client),
        _ => None,
    }
}

/// Returns the file of the token of a target that needs a sign-in.
pub(crate) fn token_file(target: &Target) -> Option<TokenFile> {
    match &client(target)?.grant {
        Grant::Person { file, .. } => Some(file.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
