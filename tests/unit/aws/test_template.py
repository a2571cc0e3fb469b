"""The template: valid, as the code expects it, and with the limits that AWS sets."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from headgate.aws import handlers
from headgate.settings import Settings
from headgate.signals.sqs import DELAY_S_MAX
from headgate.store.dynamodb.engine.definition import BY_STATE, definition, time_to_live
from tests.aws_stack import TEMPLATE
from tests.processes import ROOT

LANES = ("Hot", "Cold")
FUNCTIONS = (*LANES, "Sweeper", "Api")
NO_VALUE = "AWS::NoValue"
#: What `DynamoTable` sends, without what only `headgate migrate` does; a transaction needs the
#: permissions of its writes. Nothing scans.
ON_TABLE = (
    "BatchGetItem BatchWriteItem ConditionCheckItem DeleteItem GetItem PutItem Query UpdateItem"
)
TABLE, SEND = f"dynamodb: {ON_TABLE}", "sqs: SendMessage"
RECEIVE = "sqs: DeleteMessage GetQueueAttributes ReceiveMessage"
LOGS, SECRET_VALUE, DECRYPT = (
    "logs: CreateLogStream PutLogEvents",
    "secretsmanager: GetSecretValue",
    "kms: Decrypt",
)
LOG_GROUPS = "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:/aws/lambda"
#: All that a role may do: the function, on what, which actions, and on which condition.
PERMISSIONS = [
    *(
        row
        for function in FUNCTIONS
        for row in [
            (function, f"{LOG_GROUPS}/${{AWS::StackName}}-{function.lower()}:*", LOGS, None),
            (function, "Table.Arn", TABLE, None),
            (function, "${Table.Arn}/index/*", TABLE, None),
            (function, "HotQueue.Arn", SEND, None),
            (function, "ColdQueue.Arn", SEND, None),
            (function, "KeysSecretArn", SECRET_VALUE, "HasKeysSecret"),
            (function, "SettingsSecretArn", SECRET_VALUE, "HasSettings"),
            (function, "KeysKmsKeyArn", DECRYPT, "HasKmsKey"),
        ]
    ),
    ("Hot", "HotQueue.Arn", RECEIVE, None),
    ("Cold", "ColdQueue.Arn", RECEIVE, None),
]


class Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads functions as plain mappings: {"Ref": "Table"}. cfn-lint's own takes seconds to load."""


def _function(loader: Any, tag: str, node: Any) -> dict[str, Any]:
    scalar = isinstance(node, yaml.ScalarNode)
    value = loader.construct_scalar(node) if scalar else loader.construct_sequence(node, deep=True)
    return {tag if tag == "Ref" else f"Fn::{tag}": value.split(".") if tag == "GetAtt" else value}


Loader.add_multi_constructor("!", _function)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """The template."""
    return dict(Loader(TEMPLATE.read_bytes()).get_single_data())


def properties(template: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


@pytest.mark.thorough
def test_cfn_lint_finds_nothing() -> None:
    command = [str(Path(sys.executable).with_name("cfn-lint")), str(TEMPLATE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_table_is_the_one_that_the_store_defines(template: dict[str, Any]) -> None:
    table = dict(properties(template, "Table"))
    ttl = table.pop("TimeToLiveSpecification")
    recovery = table.pop("PointInTimeRecoverySpecification")
    assert table.pop("SSESpecification") == {"SSEEnabled": True}
    assert table == definition()
    assert ttl == time_to_live()
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    assert template["Resources"]["Table"]["DeletionPolicy"] == "Retain"


@pytest.mark.fault(12)
@pytest.mark.parametrize("lane", LANES)
def test_a_function_may_feed_the_queue_that_calls_it(template: dict[str, Any], lane: str) -> None:
    # Else Lambda stops it after about sixteen rounds.
    assert properties(template, f"{lane}Function")["RecursiveLoop"] == "Allow"


@pytest.mark.parametrize("lane", LANES)
def test_messages_stay_hidden_for_six_times_the_time_out_and_die_after_five_failures(
    template: dict[str, Any], lane: str
) -> None:
    queue, function = properties(template, f"{lane}Queue"), properties(template, f"{lane}Function")
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert queue["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": [f"{lane}DeadQueue", "Arn"]},
        "maxReceiveCount": 5,
    }
    source = properties(template, f"{lane}Source")
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["EventSourceArn"] == {"Fn::GetAtt": [f"{lane}Queue", "Arn"]}
    # A dead message is kept longer than one that waits.
    dead = properties(template, f"{lane}DeadQueue")
    assert dead["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"]


def test_time_outs_are_those_that_aws_allows(template: dict[str, Any]) -> None:
    time_outs = {each: properties(template, f"{each}Function")["Timeout"] for each in FUNCTIONS}
    assert time_outs["Cold"] == 900
    assert time_outs["Hot"] <= 60
    # API Gateway gives up after 30 seconds.
    assert time_outs["Api"] < 30


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_its_handler_and_only_settings_that_exist(
    template: dict[str, Any], name: str
) -> None:
    function = properties(template, f"{name}Function")
    module, _, attribute = function["Handler"].rpartition(".")
    assert module == handlers.__name__
    assert callable(getattr(handlers, attribute))
    settings = {f"HEADGATE_{each.upper()}" for each in Settings.model_fields}
    others = {"HEADGATE_SETTINGS_SECRET", "SECRETS_REVISION"}
    assert set(function["Environment"]["Variables"]) <= settings | others


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_deployment_can_start_every_function_anew(template: dict[str, Any], name: str) -> None:
    # A secret that changed is no change of the stack, and a container that runs on has the old one.
    variables = properties(template, f"{name}Function")["Environment"]["Variables"]
    assert variables["SECRETS_REVISION"] == {"Ref": "SecretsRevision"}


def as_list(one_or_more: Any) -> list[Any]:
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]


def named(resource: Any) -> str:
    """A resource as the table of permissions names it."""
    [(function, value)] = resource.items()
    return ".".join(value) if function == "Fn::GetAtt" else str(value)


def permissions(template: dict[str, Any], name: str) -> list[tuple[str, str, str, str | None]]:
    """What the role of a function may do, as rows of the table."""
    [policy] = properties(template, f"{name}Role")["Policies"]
    rows = []
    for given in policy["PolicyDocument"]["Statement"]:
        condition, statement, otherwise = given.get("Fn::If", (None, given, {"Ref": NO_VALUE}))
        assert otherwise == {"Ref": NO_VALUE}
        assert set(statement) == {"Sid", "Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow"
        pairs = [each.split(":") for each in as_list(statement["Action"])]
        [service] = {service for service, _ in pairs}
        actions = f"{service}: {' '.join(sorted(action for _, action in pairs))}"
        rows += [(name, named(each), actions, condition) for each in as_list(statement["Resource"])]
    return rows


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_may_do_what_it_needs_and_no_more(
    template: dict[str, Any], name: str
) -> None:
    role = properties(template, f"{name}Role")
    assert sorted(permissions(template, name), key=str) == sorted(
        [row for row in PERMISSIONS if row[0] == name], key=str
    )
    # Nothing comes by another way.
    assert set(role) == {"AssumeRolePolicyDocument", "Policies"}
    assert properties(template, f"{name}Function")["Role"] == {"Fn::GetAtt": [f"{name}Role", "Arn"]}


def test_there_are_no_other_roles_and_policies(template: dict[str, Any]) -> None:
    kinds = {
        name: each["Type"]
        for name, each in template["Resources"].items()
        if each["Type"].startswith("AWS::IAM::")
    }
    assert kinds == {f"{name}Role": "AWS::IAM::Role" for name in FUNCTIONS}


def test_there_is_an_alarm_for_age_dead_messages_throttling_and_breakers(
    template: dict[str, Any],
) -> None:
    alarms = [
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::CloudWatch::Alarm"
    ]
    metrics = [each["MetricName"] for each in alarms]
    assert metrics.count("ApproximateAgeOfOldestMessage") == 2
    assert metrics.count("ApproximateNumberOfMessagesVisible") == 2
    assert {"ReadThrottleEvents", "WriteThrottleEvents", "Throttles", "BreakerOpenings"} <= set(
        metrics
    )
    # Of the index that every claim writes too: the metric of a table leaves its indexes out.
    [index] = [
        dimension["Value"]
        for each in alarms
        for dimension in each.get("Dimensions", ())
        if dimension["Name"] == "GlobalSecondaryIndexName"
    ]
    assert index == BY_STATE
    assert all(each["AlarmActions"] for each in alarms)
    for lane in LANES:
        assert properties(template, f"{lane}BreakerMetric")["FilterPattern"] == (
            '{ $.event = "chunk_failed" && $.reason = "breaker" }'
        )


def test_a_message_that_was_delayed_on_purpose_is_no_alarm(template: dict[str, Any]) -> None:
    # The delay may count towards the age of a message; five minutes more are late.
    for lane in LANES:
        assert properties(template, f"{lane}AgeAlarm")["Threshold"] >= DELAY_S_MAX + 300
    hot, cold = (properties(template, f"{lane}AgeAlarm")["Threshold"] for lane in LANES)
    guide = (ROOT / "docs" / "how-to" / "aws.md").read_text(encoding="utf-8")
    told = (
        f"({hot // 60} minutes in the hot lane, as {DELAY_S_MAX // 60} of them may be its delay; "
    )
    assert f"{told}{cold // 3600} hours in the cold one)" in guide


def test_the_first_breaker_that_opens_is_told(template: dict[str, Any]) -> None:
    alarm = properties(template, "BreakerAlarm")
    assert (alarm["Statistic"], alarm["Threshold"]) == ("Sum", 0)
    assert alarm["ComparisonOperator"] == "GreaterThanThreshold"


def test_both_lanes_together_leave_room_for_the_others(template: dict[str, Any]) -> None:
    parameters = template["Parameters"]
    most = [parameters[f"{lane}Concurrency"] for lane in LANES]
    assert sum(each["Default"] for each in most) <= 25
    # An account may begin with 10 functions at once.
    assert sum(each["MinValue"] for each in most) <= 6
    for lane in LANES:
        scaling = properties(template, f"{lane}Source")["ScalingConfig"]
        assert scaling == {"MaximumConcurrency": {"Ref": f"{lane}Concurrency"}}


def holds(function: Any, given: dict[str, str]) -> Any:
    """The value of a function of a rule, with these parameters."""
    if isinstance(function, str):
        return function
    [(name, value)] = function.items()
    match name:
        case "Ref":
            return given.get(value, "")
        case "Fn::Equals":
            return holds(value[0], given) == holds(value[1], given)
        case "Fn::Not":
            return not holds(value[0], given)
        case "Fn::Or":
            return any(holds(each, given) for each in value)
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"KeysSecretArn": "s"}, None),
        ({"KeysSecretArn": "s", "KeysKmsKeyArn": "k"}, None),
        ({"KeysCiphertext": "c", "KeysKmsKeyArn": "k"}, None),
        ({}, "Name the secret"),
        ({"KeysKmsKeyArn": "k"}, "Name the secret"),
        ({"KeysCiphertext": "c"}, "KeysCiphertext needs KeysKmsKeyArn"),
        ({"KeysSecretArn": "s", "KeysCiphertext": "c", "KeysKmsKeyArn": "k"}, "not both"),
    ],
)
def test_a_stack_without_its_encryption_keys_is_refused(
    template: dict[str, Any], given: dict[str, str], refused: str | None
) -> None:
    told = [
        each["AssertDescription"]
        for rule in template["Rules"].values()
        if "RuleCondition" not in rule or holds(rule["RuleCondition"], given)
        for each in rule["Assertions"]
        if not holds(each["Assert"], given)
    ]
    assert (refused is None) == (not told)
    assert refused is None or refused in "".join(told)


SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:headgate/keys-a1b2c3"
KMS = "arn:aws:kms:eu-west-1:123456789012:"


@pytest.mark.parametrize(
    ("parameter", "right", "wrong"),
    [
        ("KeysSecretArn", SECRET, "headgate/keys"),
        ("SettingsSecretArn", SECRET, "headgate/settings"),
        ("KeysKmsKeyArn", f"{KMS}key/1234abcd", f"{KMS}alias/headgate"),
        ("KeysKmsKeyArn", f"{KMS}key/1234abcd", "alias/headgate"),
        ("PublicUrl", "https://sync.example", "https://sync.example/headgate"),
        ("PublicUrl", "https://sync.example/", "sync.example"),
    ],
)
def test_a_name_in_place_of_an_arn_is_refused_before_anything_is_created(
    template: dict[str, Any], parameter: str, right: str, wrong: str
) -> None:
    allowed = re.compile(template["Parameters"][parameter]["AllowedPattern"])
    assert allowed.fullmatch("") and allowed.fullmatch(right)
    assert not allowed.fullmatch(wrong)


def test_a_sweeper_that_is_not_called_is_an_alarm(template: dict[str, Any]) -> None:
    alarm = properties(template, "SweeperMissingAlarm")

    assert (alarm["MetricName"], alarm["Statistic"]) == ("Invocations", "Sum")
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    # What is not called has no data, which must not count as good.
    assert alarm["TreatMissingData"] == "breaching"


def test_no_level_of_logs_hides_what_alarms_count(template: dict[str, Any]) -> None:
    # A chunk that failed is a warning.
    levels = template["Parameters"]["LogLevel"]["AllowedValues"]
    assert levels == ["debug", "info", "warning"]


def test_the_dashboard_is_json(template: dict[str, Any]) -> None:
    body = properties(template, "Dashboard")["DashboardBody"]["Fn::Sub"]
    assert len(json.loads(body)["widgets"]) == 6
