create table `project` (`id` text primary key, `worktree` text not null, `vcs` text, `name` text, `icon_url` text,
  `icon_url_override` text, `icon_color` text, `time_created` integer not null, `time_updated` integer not null,
  `time_initialized` integer, `sandboxes` text not null, `commands` text);
create table `session` (`id` text primary key, `project_id` text not null, `workspace_id` text, `parent_id` text,
  `slug` text not null, `directory` text not null, `path` text, `title` text not null, `version` text not null,
  `share_url` text, `summary_additions` integer, `summary_deletions` integer, `summary_files` integer,
  `summary_diffs` text, `metadata` text, `cost` real default 0 not null, `tokens_input` integer default 0 not null,
  `tokens_output` integer default 0 not null, `tokens_reasoning` integer default 0 not null,
  `tokens_cache_read` integer default 0 not null, `tokens_cache_write` integer default 0 not null, `revert` text,
  `permission` text, `agent` text, `model` text, `time_created` integer not null, `time_updated` integer not null,
  `time_compacting` integer, `time_archived` integer);
create table `message` (`id` text primary key, `session_id` text not null, `time_created` integer not null,
  `time_updated` integer not null, `data` text not null);
create table `part` (`id` text primary key, `message_id` text not null, `session_id` text not null,
  `time_created` integer not null, `time_updated` integer not null, `data` text not null);
create table `todo` (`session_id` text not null, `content` text not null, `status` text not null,
  `priority` text not null, `position` integer not null, `time_created` integer not null,
  `time_updated` integer not null, primary key (`session_id`, `position`));
create table `migration` (id text primary key, time_completed integer not null);
create index `message_session_time_created_id_idx` on `message` (`session_id`, `time_created`, `id`);
create index `part_message_id_id_idx` on `part` (`message_id`, `id`);
create index `part_session_idx` on `part` (`session_id`);
create index `session_project_idx` on `session` (`project_id`);
create index `session_workspace_idx` on `session` (`workspace_id`);
create index `session_parent_idx` on `session` (`parent_id`);
create index `todo_session_idx` on `todo` (`session_id`);
insert into `project` values ('global', '/', null, null, null, null, null, 0, 0, null, '[]', null);
insert into `migration` values ('20260622202450_simplify_session_input', 0);
