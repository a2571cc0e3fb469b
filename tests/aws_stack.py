"""The stack of `deploy/aws/template.yaml`, created by the CloudFormation of an emulator."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from botocore.session import get_session

from tests.emulators import CREDENTIALS, PROCESS
from tests.processes import ROOT

TEMPLATE = ROOT / "deploy" / "aws" / "template.yaml"
_KEY = "headgate.zip"
#: For a stack whose functions nobody starts.
_NO_SECRET = "arn:aws:secretsmanager:eu-central-1:000000000000:secret:none"
_LOOK_S, _LOOKS_MAX = 0.1, 600


@cache
def client(service: str, address: str) -> Any:
    """A client of a service of the emulator."""
    session = get_session()
    session.set_credentials(CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    region = CREDENTIALS["AWS_DEFAULT_REGION"]
    return session.create_client(service, endpoint_url=address, region_name=region)


class Stack:
    """A stack that was created, and what is in it."""

    def __init__(self, address: str, name: str) -> None:
        self.address = address
        self.name = name
        formation = client("cloudformation", address)
        found = formation.describe_stack_resources(StackName=name)["StackResources"]
        #: What AWS calls each resource, by its name in the template.
        self.ids: Mapping[str, str] = {
            each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found
        }
        [described] = formation.describe_stacks(StackName=name)["Stacks"]
        self.outputs: Mapping[str, str] = {
            each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]
        }

    def do_as_aws_does(self) -> None:
        """Pass on what the template says and the emulator's CloudFormation does not."""
        functions = client("lambda", self.address)
        for lane in ("Hot", "Cold"):
            # It leaves a number that is a parameter a text, and then fails to compare it.
            mapping = functions.get_event_source_mapping(UUID=self.ids[f"{lane}Source"])
            functions.update_event_source_mapping(
                UUID=mapping["UUID"], ScalingConfig=mapping["ScalingConfig"]
            )
            functions.put_function_recursion_config(
                FunctionName=self.ids[f"{lane}Function"], RecursiveLoop="Allow"
            )

    def stop_sources(self) -> None:
        """Let the queues call no function: a test does."""
        functions = client("lambda", self.address)
        for each in ("HotSource", "ColdSource"):
            functions.update_event_source_mapping(UUID=self.ids[each], Enabled=False)

    def environment(self, function: str) -> dict[str, str]:
        """The variables of a function, by its name in the template."""
        found = client("lambda", self.address).get_function_configuration(
            FunctionName=self.ids[function]
        )
        return dict(found["Environment"]["Variables"])


def create_stack(address: str, name: str, code: Path, **parameters: str) -> Stack:
    """Create the stack with the zip `code`, and wait until everything is there."""
    storage = client("s3", address)
    # The names of buckets are shared by all accounts.
    bucket = f"code-{name}-{PROCESS}"
    storage.create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    storage.put_object(Bucket=bucket, Key=_KEY, Body=code.read_bytes())
    formation = client("cloudformation", address)
    given = {"CodeBucket": bucket, "CodeKey": _KEY, "KeysSecretArn": _NO_SECRET, **parameters}
    formation.create_stack(
        StackName=name,
        TemplateBody=TEMPLATE.read_text(encoding="utf-8"),
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in given.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    formation.get_waiter("stack_create_complete").wait(
        StackName=name, WaiterConfig={"Delay": _LOOK_S, "MaxAttempts": _LOOKS_MAX}
    )
    made = Stack(address, name)
    made.do_as_aws_does()
    return made
