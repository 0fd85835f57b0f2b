//! The sign-in of a person to a target: by a command, or during the call that needs it.

use std::sync::Arc;
use std::time::Duration;

use egress::HttpClient;
use egress::auth::{TokenEndpoint, check_endpoints, needs_sign_in};
use egress::credential::{Credential, Grant, OAuth2, StoredToken, TokenFile};
use egress::sign_in::{self, Prompt, Refusal, RunningSignIn, SignInError, SignInTurn, SignedOut};
use peer::Delivered;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout};
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

/// How long a person who refused is not asked again, nor another one, and none is asked for an agent that refuses the token of a
/// new sign-in.
const REFUSAL_TIME: Duration = Duration::from_secs(10 * 60);

/// The error of a call whose agent refuses the token of a new sign-in.
const REFUSED_TOKEN: &str = "the agent refuses the token of the latest sign-in";

/// The error of a call with a time limit of its own.
const TIME_UP: &str = "no person signed in before the call's time was up";

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
            let files = catalog.targets().iter().filter_map(|one| token_file(one));
            let names: Vec<_> = files.map(|file| format!("`{}`", file.alias)).collect();
            let wanted = match alias {
                Some(alias) => format!("no target is named `{}`", alias.escape_debug()),
                None => "name a target".to_owned(),
            };
            return Err(match names.is_empty() {
                true => format!("{wanted}; no target needs a sign-in"),
                false => format!("{wanted}; these need a sign-in: {}", names.join(", ")),
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
        let base_url = &target.peer_config.base_url;
        Some(Self {
            file: token_file(target)?,
            client: Arc::clone(client(target)?),
            endpoint: endpoint(target),
            net,
            origin: base_url.origin().ascii_serialization(),
        })
    }

    /// Signs in and stores the token; see [`sign_in::sign_in`].
    ///
    /// # Errors
    /// The server or the person refuses, or the time is up; a sentence.
    pub async fn run(
        &self,
        show: impl FnMut(Prompt),
        pasted: mpsc::Receiver<String>,
    ) -> Result<StoredToken, String> {
        self.forget_refusals();
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
        self.forget_refusals();
        let asked = self.ask_about(person, &mut self.begin()).await;
        asked.map_err(NotSignedIn::into_reason)
    }

    fn begin(&self) -> RunningSignIn {
        let (net, client) = (Arc::clone(&self.net), Arc::clone(&self.client));
        RunningSignIn::begin(net, client, self.endpoint.clone())
    }

    /// Asks the person what the sign-in shows, until it ends or they refuse.
    async fn ask_about(
        &self,
        person: &dyn Person,
        running: &mut RunningSignIn,
    ) -> Result<StoredToken, NotSignedIn> {
        let RunningSignIn {
            ended,
            shown,
            prompts,
            pasted,
            ..
        } = running;
        let asking = async {
            if shown.is_none() {
                *shown = prompts.recv().await;
            }
            match shown.as_ref().and_then(|prompt| self.question(prompt)) {
                Some(question) => ask_person(person, question, prompts, pasted).await,
                // It has ended.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = ended => NotSignedIn::read(ended),
            refused = asking => Err(refused),
        }
    }

    async fn is_needed(&self) -> bool {
        needs_sign_in(&*self.net, &self.client, &self.endpoint).await
    }

    /// Lets the next call ask: a person signs in with a command.
    fn forget_refusals(&self) {
        // A call that asks now has the lock, and forgets them too if the person signs in.
        if let Ok(mut turn) = self.client.signing_in.try_lock() {
            *turn = SignInTurn::default();
        }
    }

    /// Asks a person during a call, unless another call has a token meanwhile. Of the calls that wait for the same token one asks,
    /// and a person's refusal is for all of them, and for the calls of the next minutes. If the call
    /// `uses_default_timeout`, the time of a person does not count.
    ///
    /// # Errors
    /// The person does not sign in, or the call has ended. Nothing was sent to the agent.
    async fn ask_in_turn(
        &self,
        person: &dyn Person,
        deadline: &Deadline,
        uses_default_timeout: bool,
    ) -> Result<(), ToolError> {
        let began = Instant::now();
        let turn = deadline.run(self.client.signing_in.lock()).await;
        let mut turn = turn.map_err(|error| match error.reason {
            Reason::Timeout => self.unavailable("another call is asking a person to sign in"),
            _ => error,
        })?;
        if let Some(refusal) = &turn.refusal
            && (refusal.at >= began || refusal.is_persons && is_recent(refusal.at))
        {
            return Err(self.unavailable(&refusal.reason));
        }
        let asking = self.ask_with(person, &mut turn);
        let asked = async {
            if uses_default_timeout {
                return asking.await;
            }
            let asked = timeout(deadline.before_end(), asking).await;
            asked.unwrap_or_else(|_| Err(NotSignedIn::Failed(TIME_UP.to_owned())))
        };
        let asked = deadline.run_without_limit(asked).await;
        // The question has ended with the call.
        turn.running.take_if(|running| !running.is_kept);
        asked?.map_err(|ended| self.unavailable(&ended.into_reason()))
    }

    async fn ask_with(
        &self,
        person: &dyn Person,
        turn: &mut SignInTurn,
    ) -> Result<(), NotSignedIn> {
        if !self.is_needed().await {
            turn.running = None;
            return Ok(());
        }
        if turn.signed_in_at.is_some_and(is_recent) && self.client.is_refused() {
            return Err(NotSignedIn::Refused(REFUSED_TOKEN.to_owned()));
        }
        let finished = turn.running.take_if(|running| running.ended.is_finished());
        let refused_meanwhile = match finished {
            Some(finished) => NotSignedIn::read(finished.ended.await).err(),
            None => None,
        };
        let asked = match refused_meanwhile {
            Some(refused @ NotSignedIn::Refused(_)) => Err(refused),
            // Another sign-in may do better than one that has expired or failed.
            _ => {
                let running = turn.running.get_or_insert_with(|| self.begin());
                let asked = self.ask_about(person, running).await;
                running.is_kept |= matches!(asked, Err(NotSignedIn::Later));
                asked
            }
        };
        turn.running.take_if(|running| match asked {
            // The caller that began it may still have its question.
            Err(NotSignedIn::Unreached) => !running.is_kept,
            Err(NotSignedIn::Later) => false,
            _ => true,
        });
        match &asked {
            Ok(_) => {
                turn.signed_in_at = Some(Instant::now());
                turn.refusal = None;
            }
            // The host of another call may reach one.
            Err(NotSignedIn::Unreached | NotSignedIn::Later) => {}
            Err(NotSignedIn::Refused(reason) | NotSignedIn::Failed(reason)) => {
                turn.refusal = Some(Refusal {
                    at: Instant::now(),
                    reason: reason.clone(),
                    is_persons: matches!(asked, Err(NotSignedIn::Refused(_))),
                });
            }
        }
        asked.map(drop)
    }

    fn unavailable(&self, reason: &str) -> ToolError {
        let command = self.file.command();
        let message = format!("{reason}. A person has to sign in: `{command}`");
        ToolError::new(Reason::TokenUnavailable, message)
    }

    /// Returns the question of a prompt; `None` if it only repeats one.
    fn question(&self, prompt: &Prompt) -> Option<Question> {
        let (link, code) = match prompt {
            Prompt::Device(code) => (
                code.complete_url.as_ref().unwrap_or(&code.url),
                Some(code.user_code.clone()),
            ),
            Prompt::Browser(url) => (url, None),
            Prompt::PasteAgain(_) => return None,
        };
        let server = sign_in::server(&self.client);
        let user = self.file.user.as_deref().unwrap_or_default();
        let text = match &code {
            Some(code) => format!("Sign in at {server}: open the link, and enter the code {code}."),
            None => format!(
                "Sign in at {server}: open the link. If the page at the end does not load, answer with its whole address."
            ),
        };
        Some(Question {
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
            timeout_ms: base::environment::millis(QUESTION_TIMEOUT),
            error: None,
            misfits: Vec::new(),
        })
    }
}

/// Returns whether something was less than [`REFUSAL_TIME`] ago.
fn is_recent(at: Instant) -> bool {
    at.elapsed() < REFUSAL_TIME
}

/// Why there is no sign-in.
enum NotSignedIn {
    /// No person can be reached.
    Unreached,
    /// The host has to end the call before the person answers.
    Later,
    /// The person refuses; a sentence.
    Refused(String),
    /// Something else; a sentence.
    Failed(String),
}

impl NotSignedIn {
    /// Reads the end of a sign-in.
    fn read(
        ended: Result<Result<StoredToken, SignInError>, JoinError>,
    ) -> Result<StoredToken, Self> {
        match ended {
            Ok(Ok(token)) => Ok(token),
            Ok(Err(error @ SignInError::Declined)) => Err(Self::Refused(error.to_string())),
            Ok(Err(error)) => Err(Self::Failed(error.to_string())),
            Err(error) => Err(Self::Failed(error.to_string())),
        }
    }

    fn into_reason(self) -> String {
        match self {
            Self::Unreached | Self::Later => "no person can be reached to sign in".to_owned(),
            Self::Refused(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// Withdraws a question that is over.
struct Withdrawal<'a>(&'a dyn Person, String);

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.0.withdraw(&self.1);
    }
}

/// Asks the person the question of a sign-in, and passes on the addresses that they answer. Returns why the sign-in ends.
async fn ask_person(
    person: &dyn Person,
    mut question: Question,
    prompts: &mut mpsc::Receiver<Prompt>,
    pasted: &mpsc::Sender<String>,
) -> NotSignedIn {
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
            AnswerAction::Unreachable => return NotSignedIn::Unreached,
            AnswerAction::Later => return NotSignedIn::Later,
            _ => return NotSignedIn::Refused("the person declined to sign in".to_owned()),
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
                let Some(Prompt::PasteAgain(reason)) = prompts.recv().await else {
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
        let asked = sign_in.ask_in_turn(person, &call.deadline, call.person.uses_default_timeout);
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

/// Returns the allowed addresses of the authorization server of a target.
fn endpoint(target: &Target) -> TokenEndpoint {
    let config = &target.peer_config;
    TokenEndpoint {
        allow_private: config.allow_private,
        trust: config.trust_elsewhere.clone(),
    }
}

/// Checks the endpoints of the authorization server of a target, if it has one with an issuer.
///
/// # Errors
/// They cannot be used; a sentence.
pub(crate) async fn check_issuer(target: &Target, net: &dyn HttpClient) -> Result<(), String> {
    let client = client(target).filter(|client| client.endpoints.issuer.is_some());
    let Some(client) = client.filter(|_| target.unresolved.is_none()) else {
        return Ok(());
    };
    let checked = check_endpoints(net, client, &endpoint(target)).await;
    checked.map_err(|error| error.to_string())
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
