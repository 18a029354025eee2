//! `agentctl top`: all sessions on one screen, live, with the conversation and the asks of the selected one.
//!
//! `app` is the state, which only messages change. Threads of their own read keys, watch the sessions, follow the
//! conversation, make pages and carry out orders; the thread that draws never waits for any of them.

mod app;
mod charset;
mod input;
mod interrupts;
mod keys;
mod layout;
mod newest;
mod orders;
mod pages;
mod screen;
mod sessions;
mod talk;
mod view;

#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::host::Host;
use agentctl_core::model::Time;

use self::app::{Action, App, Clock, Message};
use self::charset::Charset;
use self::interrupts::Interrupts;
use self::newest::NewestLook;
use self::orders::Orders;
use self::pages::Pages;
use self::screen::Painter;
use self::sessions::Sessions;
use self::talk::Talks;
use self::view::Palette;
use crate::config::{Defaults, Loaded};
use crate::failure::{Failure, Outcome};
use crate::ui::{Screen, ScreenCalls};

/// How `top` is shown.
#[derive(Clone, Copy, Debug)]
pub struct TopForm {
    /// With colours.
    pub has_colour: bool,
    /// With characters beyond ASCII.
    pub has_unicode: bool,
    /// The terminal is notified of sessions that begin to wait.
    pub is_notified: bool,
}

/// Most messages that are taken before a frame is drawn.
const MESSAGES_PER_FRAME: usize = 256;

/// A test sets this variable to see the terminal restored after a panic: pasted text then causes one. Only builds for
/// tests read it.
const PANIC_FOR_A_TEST: &str = "TOP_PANIC_FOR_A_TEST";

/// Shows all sessions until the user leaves.
pub fn run(loaded: &Loaded, form: TopForm) -> Outcome {
    let fleet = loaded.fleet();
    let world = World {
        fleet: fleet.clone(),
        defaults: Arc::new(loaded.defaults.clone()),
        launch_refusal: loaded.check_launch().err(),
    };
    let (sender, messages) = channel();
    let newest = NewestLook::default();
    let interrupts = Arc::new(Interrupts::default());
    // Watching may fail, so it begins before the screen is entered.
    let sessions = Sessions::open(&fleet, loaded.source_faults(), form.is_notified)?;
    let screen = Screen::open_with_keys(calls(&sender, &interrupts))?;
    let screen = Arc::new(screen);
    screen::spawn_key_thread(sender.clone());
    let threads = Threads {
        sessions: sessions.spawn(Arc::clone(&screen), newest.clone(), sender.clone()),
        talks: Talks::spawn(fleet.clone(), form.has_colour, sender.clone()),
        pages: Pages::spawn(world.clone(), sender.clone()),
        orders: Orders::new(world, sender),
    };
    let palette = if form.has_colour { Palette::Colours } else { Palette::Plain };
    let mut app = App::new(screen.size(), &fleet.host.home, fleet.host.now());
    app.charset = if form.has_unicode { Charset::Unicode } else { Charset::Ascii };
    let host = Arc::clone(&fleet.host);
    let (painter, began) = (Painter::new(), Instant::now());
    Top { app, screen, threads, interrupts, newest, palette, host, painter, began }.show(&messages)
}

/// The sessions of this machine, and the settings of orders.
#[derive(Clone)]
struct World {
    fleet: Fleet,
    defaults: Arc<Defaults>,
    /// Why nothing may be launched or resumed with these settings.
    launch_refusal: Option<Failure>,
}

/// Reports signals and other sizes of the terminal as messages.
fn calls(sender: &Sender<Message>, interrupts: &Arc<Interrupts>) -> ScreenCalls {
    let (leaving, resized, interrupted) = (sender.clone(), sender.clone(), sender.clone());
    let interrupts = Arc::clone(interrupts);
    ScreenCalls {
        stay: Box::new(move || interrupts.stays() && interrupted.send(Message::Interrupt).is_ok()),
        leave: Box::new(move || {
            let _unheard = leaving.send(Message::Leave);
        }),
        // The size is measured when the message is taken.
        redraw: Box::new(move || {
            let _unheard = resized.send(Message::Resized(0, 0));
        }),
    }
}

/// The threads that work for the screen.
struct Threads {
    sessions: sessions::SessionsHandle,
    talks: Talks,
    pages: Pages,
    orders: Orders,
}

/// The screen, the state behind it, and the threads that work for it.
struct Top {
    app: App,
    screen: Arc<Screen>,
    threads: Threads,
    interrupts: Arc<Interrupts>,
    newest: NewestLook,
    palette: Palette,
    host: Arc<Host>,
    painter: Painter,
    began: Instant,
}

impl Drop for Top {
    fn drop(&mut self) {
        // Another thread shares the screen, so it is not left by its own end.
        self.screen.leave();
    }
}

impl Top {
    /// Takes messages and draws, until the user leaves.
    fn show(mut self, messages: &Receiver<Message>) -> Outcome {
        self.draw()?;
        while let Some(message) = self.next(messages) {
            let mut more = Some(message);
            let mut left = MESSAGES_PER_FRAME;
            while let Some(message) = more.take() {
                if self.take(message) {
                    self.threads.sessions.close();
                    return Ok(ExitCode::SUCCESS);
                }
                left -= 1;
                more = (left > 0).then(|| messages.try_recv().ok()).flatten();
            }
            self.draw()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Waits for the next message, at most until an age on the screen changes.
    fn next(&self, messages: &Receiver<Message>) -> Option<Message> {
        let Some(change) = self.app.next_change() else { return messages.recv().ok() };
        let now: Time = self.host.now();
        let left = u64::try_from(change.millis() - now.millis()).unwrap_or(0);
        match messages.recv_timeout(Duration::from_millis(left.saturating_add(1))) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => Some(Message::Timer),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Takes a message and does what it asks for; says whether the user leaves.
    fn take(&mut self, message: Message) -> bool {
        let message = match message {
            Message::Resized(..) => {
                let (columns, lines) = self.screen.size();
                Message::Resized(columns, lines)
            }
            Message::NewLook => self.newest.take().unwrap_or(Message::NewLook),
            other => other,
        };
        let is_test = cfg!(debug_assertions)
            && matches!(message, Message::Paste(_))
            && self.host.var(PANIC_FOR_A_TEST).is_some();
        assert!(!is_test, "a test asked for this");
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let clock = Clock { ms, now: self.host.now() };
        let mut leaves = false;
        let actions = self.app.update(message, clock);
        self.interrupts.note(self.app.open_orders > 0, self.app.is_leaving);
        for action in actions {
            match action {
                Action::Leave => leaves = true,
                Action::Redraw => self.painter.forget(),
                Action::SetMouse(on) => self.screen.set_mouse(on),
                Action::SetQuery { all, children } => {
                    self.threads.sessions.set_query(all, children);
                }
                Action::ReadTalk(request) => self.threads.talks.read(request),
                Action::ReadPage(request) => self.threads.pages.read(request),
                Action::ReadEnd(session) => self.threads.sessions.read_end(session),
                Action::Order(order) => self.threads.orders.start(order),
            }
        }
        leaves
    }

    fn draw(&mut self) -> std::io::Result<()> {
        if self.screen.take_stale() {
            self.painter.forget();
        }
        let frame = view::draw(&self.app, self.palette);
        let bytes = self.painter.paint(frame.cells, frame.cursor);
        screen::draw(&self.screen, &bytes)
    }
}
