"""Parts of a command: loading the application, printing, parsing values, following a job."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.base.listening import listener_url, listening
    from headgate.toolkit.commands.asking import ask
    from headgate.toolkit.commands.command_line import example
    from headgate.toolkit.commands.ids import IdKind, whole_id
    from headgate.toolkit.commands.linking import build_links, site_url
    from headgate.toolkit.commands.loading import (
        CONFIG,
        AppOption,
        DatabaseOption,
        JsonOption,
        exit_code,
        fail,
        load_app,
        log_as_json,
        log_errors_only,
        report_errors,
        run,
        run_list,
    )
    from headgate.toolkit.commands.outbox.draining import drain_targets, drain_with_progress
    from headgate.toolkit.commands.outbox.targets import (
        ApiKeyFileOption,
        ApiKeyOption,
        ApiUrlOption,
        ConfirmOption,
        EnvOption,
        RunOption,
        check_confirms,
        choose_target,
        choose_targets,
    )
    from headgate.toolkit.commands.outbox.worker import run_outbox_worker
    from headgate.toolkit.commands.output import (
        amount,
        counts_text,
        messages,
        out,
        print_json,
        print_table,
    )
    from headgate.toolkit.commands.parsing import parse_day, parse_json_object, parse_time, read_ids
    from headgate.toolkit.commands.screen import Screen, progress_text
    from headgate.toolkit.commands.watching import (
        ENDED_BADLY,
        LOOK_EVERY_S,
        STILL_RUNNING,
        print_status,
        watch,
        watch_json,
    )
    from headgate.toolkit.serving.http_server import build_site, serve_http
    from headgate.toolkit.serving.stop_signals import stop_on_signals
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "CONFIG",
    "ENDED_BADLY",
    "LOOK_EVERY_S",
    "STILL_RUNNING",
    "ApiKeyFileOption",
    "ApiKeyOption",
    "ApiUrlOption",
    "AppOption",
    "ConfirmOption",
    "DatabaseOption",
    "EnvOption",
    "IdKind",
    "JsonOption",
    "RunOption",
    "Screen",
    "amount",
    "ask",
    "build_links",
    "build_site",
    "check_confirms",
    "choose_target",
    "choose_targets",
    "counts_text",
    "drain_targets",
    "drain_with_progress",
    "example",
    "exit_code",
    "fail",
    "listener_url",
    "listening",
    "load_app",
    "log_as_json",
    "log_errors_only",
    "messages",
    "out",
    "parse_day",
    "parse_json_object",
    "parse_time",
    "print_json",
    "print_status",
    "print_table",
    "progress_text",
    "read_ids",
    "report_errors",
    "run",
    "run_list",
    "run_outbox_worker",
    "serve_http",
    "site_url",
    "stop_on_signals",
    "watch",
    "watch_json",
    "whole_id",
]
