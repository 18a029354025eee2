//! Help texts of arguments that name sessions: every command accepts the same forms.

/// The forms in which a session is named, and what each means. The help texts of arguments list the same forms.
pub(super) const FORMS: &[(&str, &str)] = &[
    ("id or prefix", "4 characters or more"),
    ("name", "given by `launch --name` or `name`"),
    ("pid", "of a live agent"),
    ("directory (`.`)", "the newest session there, live ones first"),
    ("@last", "the newest launch"),
    ("adapter:id", "the session of this agent, where several match"),
];

/// The forms in which one session is named.
macro_rules! one {
    () => {
        "id or prefix, name, pid, directory (`.`), @last, or adapter:id"
    };
}

/// The forms in which several sessions are named.
macro_rules! several {
    () => {
        "Session ids or prefixes, names, pids, directories (`.`), @last, or adapter:id"
    };
}

pub(super) const ONE: &str = concat!("Session ", one!());
pub(super) const ONE_OR_HERE: &str =
    concat!("Session ", one!(), " [default: the only session in this directory]");
pub(super) const SEVERAL: &str = several!();
pub(super) const SEVERAL_OR_HERE: &str =
    concat!(several!(), " [default: the only session in this directory]");
pub(super) const SEVERAL_LIVE_OR_HERE: &str =
    concat!(several!(), " [default: the only live session in this directory, after confirmation]");
pub(super) const RUNS_OF_ONE: &str =
    concat!("Only the runs of this session (", one!(), "), or the run of this id");
pub(super) const RUNS_OF: &str =
    concat!("Only the runs of these sessions, without confirmation. ", several!());
pub(super) const ONLY: &str = concat!("Only this session: ", one!());
pub(super) const INSTEAD_OF_DIRECTORY: &str = concat!("A session instead of a directory: ", one!());
pub(super) const BOUND_TO: &str = concat!("The session the fuse is bound to: ", one!());

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_and_the_table_list_the_same_forms() {
        let forms: Vec<&str> = super::FORMS.iter().map(|(form, _)| *form).collect();
        let (last, others) = forms.split_last().expect("forms");
        let listed = format!("{}, or {last}", others.join(", "));
        assert_eq!(super::ONE, format!("Session {listed}"));
        let mut singular = super::SEVERAL.to_owned();
        for (many, one) in
            [("ids", "id"), ("prefixes", "prefix"), ("names", "name"), ("directories", "directory")]
        {
            singular = singular.replace(many, one);
        }
        assert_eq!(singular, super::ONE);
    }
}
