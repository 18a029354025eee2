//! The processes that may connect: agents give no orders, and other users see nothing.
//!
//! A token can be stolen by a process that reads the browser's files, so the kernel is asked as well: which user owns
//! the other end of the connection, and for orders which processes hold it and what they run below.

use std::io::ErrorKind;

use agentctl_core::ask::Fleet;
use agentctl_core::inbox::Answerer;
use agentctl_core::kernel::{Kernel, user_name};

use crate::http::{Access, Peer, PeerCheck, Refusal};

/// Checks the process that connects.
pub(super) struct Gate {
    pub(super) fleet: Fleet,
    /// Orders are taken.
    pub(super) control: bool,
    /// The other users whose processes may connect.
    pub(super) proxy_users: Vec<String>,
}

/// The other end of a connection.
enum End {
    /// Processes of this user.
    Own(Vec<u32>),
    /// A process of another user of this machine.
    OtherUser(u32),
    /// Another machine.
    Remote,
    /// On this machine, and not to be seen.
    Hidden,
}

impl PeerCheck for Gate {
    fn check(&self, peer: &Peer, access: Access) -> Result<Option<Answerer>, Refusal> {
        if access == Access::Control && !self.control {
            let refusal = Refusal::forbidden("control_off", "this server takes no orders");
            return Err(refusal.hint("start it with `agentctl web --allow-control`"));
        }
        let gives_orders = matches!(access, Access::Control | Access::Private);
        match self.end(peer, gives_orders) {
            End::Own(pids) if gives_orders => self.orderer(&pids, access).map(Some),
            End::Own(_) | End::Remote => Ok(None),
            End::OtherUser(uid) if self.is_proxy(uid) => Ok(None),
            End::OtherUser(_) => {
                let reason = "the process that connects belongs to another user";
                let refusal = Refusal::forbidden("other_user", reason);
                Err(refusal.hint("`proxy_users` below [web] admits the user of a proxy"))
            }
            End::Hidden => Err(Refusal::unproven()),
        }
    }
}

impl Gate {
    /// Returns the other end of a connection; its processes only if they are asked for.
    fn end(&self, peer: &Peer, with_processes: bool) -> End {
        let kernel = &self.fleet.host.kernel;
        match peer {
            Peer::Tcp { server, client } => match kernel.client_end(*server, *client) {
                Ok(Some(end)) if end.uid != kernel.uid() => End::OtherUser(end.uid),
                Ok(Some(_)) if !with_processes => End::Own(Vec::new()),
                Ok(Some(end)) => match kernel.holders_of(end) {
                    Ok(pids) if !pids.is_empty() => End::Own(pids),
                    _ => End::Hidden,
                },
                // If the kernel cannot tell, the token alone decides about data, and no order is taken.
                Err(error) if error.kind() == ErrorKind::Unsupported && !with_processes => {
                    End::Remote
                }
                Ok(None) | Err(_) => {
                    let client = client.ip().to_canonical();
                    let is_here = client.is_loopback() || client == server.ip().to_canonical();
                    if is_here { End::Hidden } else { End::Remote }
                }
            },
            Peer::Unix(socket) => match Kernel::peer_uid(socket) {
                Ok(uid) if uid != kernel.uid() => End::OtherUser(uid),
                Ok(_) => match kernel.peer(socket) {
                    Ok(Some(process)) if !with_processes => End::Own(vec![process.id.pid]),
                    Ok(Some(process)) => match kernel.holders_of_peer(socket) {
                        Ok(pids) => End::Own(std::iter::once(process.id.pid).chain(pids).collect()),
                        Err(_) => End::Hidden,
                    },
                    _ => End::Hidden,
                },
                Err(_) => End::Hidden,
            },
            Peer::Unknown => End::Hidden,
        }
    }

    fn is_proxy(&self, uid: u32) -> bool {
        let (number, name) = (uid.to_string(), user_name(uid));
        self.proxy_users.iter().any(|user| *user == number || Some(user) == name.as_ref())
    }

    /// Examines the processes that give an order: none may run below an agent. An answer may come from one where the
    /// configuration allows it; then the answer itself is checked.
    fn orderer(&self, pids: &[u32], access: Access) -> Result<Answerer, Refusal> {
        let mut examined = pids.iter().map(|pid| self.fleet.answerer(*pid));
        let mut merged = examined.next().ok_or_else(Refusal::unproven)?;
        examined.for_each(|other| merged.add(other));
        let others_may = access == Access::Control && self.fleet.host.agents_may_answer_others;
        let is_from_agent = !merged.above.is_empty() && !others_may;
        // Only the token vouches for this caller, and an agent that has ended may have left it behind.
        if merged.unseen.is_some() || is_from_agent || !merged.left_behind.is_empty() {
            let failure = crate::face::order_from_agent(&merged);
            let refusal = Refusal::forbidden("from_agent", failure.message().to_owned());
            let hint = failure.first_hint().unwrap_or_default().to_owned();
            return Err(refusal.hint(hint));
        }
        Ok(merged)
    }
}

/// Refuses an order of a process that runs below an agent, whatever the configuration says about answers.
pub(super) fn check_not_from_agent(
    caller: Option<&Answerer>,
) -> Result<(), crate::failure::Failure> {
    match caller {
        Some(caller) if !caller.above.is_empty() => Err(crate::face::order_from_agent(caller)),
        _ => Ok(()),
    }
}

/// Returns the caller whose answer is checked: a proxy or another machine has only its token.
pub(super) fn answerer(fleet: &Fleet, caller: Option<Answerer>) -> Answerer {
    caller.unwrap_or_else(|| fleet.answerer(std::process::id()))
}
