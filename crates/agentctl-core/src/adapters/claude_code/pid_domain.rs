//! The pid domain of a live record: a pid means something only in the domain that it was written in.

use crate::adapters::Look;

/// The pid namespace and machine that a record was written in.
pub(super) enum Domain {
    /// Ours.
    Ours,
    /// The record does not name a domain: versions before 2.1.280.
    Unnamed,
    /// No process lives there any more.
    Deserted,
    /// Another one, and which.
    Elsewhere(String),
}

/// Compares `linux:<machine-id>:pid:[<namespace>]` with ours: a pid is valid only in its own domain.
pub(super) fn domain(look: &Look, text: Option<&str>) -> Domain {
    let kernel = &look.host.kernel;
    let Some(text) = text else { return Domain::Unnamed };
    let mut parts = text.splitn(3, ':');
    let (_, machine, space) = (parts.next(), parts.next(), parts.next());
    let space = space.and_then(|s| s.strip_prefix("pid:[")?.strip_suffix(']')?.parse::<u64>().ok());
    let same_machine = kernel.machine_id().is_none_or(|own| machine == Some(own));
    match space {
        Some(space) if same_machine && space == kernel.pid_namespace() => Domain::Ours,
        // From the machine's own namespace every process is visible, so a namespace without processes
        // is gone.
        Some(space)
            if same_machine
                && kernel.sees_whole_machine()
                && kernel.namespace_is_inhabited(space).is_ok_and(|inhabited| !inhabited) =>
        {
            Domain::Deserted
        }
        Some(_) if same_machine => {
            Domain::Elsewhere("its process lives in another pid namespace".into())
        }
        Some(_) => Domain::Elsewhere("it was recorded on another machine".into()),
        None => Domain::Elsewhere(format!("its pid namespace `{text}` is not understood")),
    }
}
