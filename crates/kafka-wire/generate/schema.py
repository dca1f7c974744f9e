"""Kafka's message schemas as Python values: what a schema says, with every version range cut to the versions that
clients may really use. Only facts are taken over (names, types, versions, defaults), never the schemas' prose."""

import json
import re
import zipfile
from dataclasses import dataclass, field


# Structs of a request whose names mean something else in its response, and what they are called here.
RENAMED = {
    ("DescribeQuorumRequest", "TopicData"): "TopicRequest",
    ("DescribeQuorumRequest", "PartitionData"): "PartitionRequest",
    ("AlterClientQuotasRequest", "EntryData"): "EntryRequest",
}


@dataclass(frozen=True)
class Versions:
    """An inclusive range of versions; empty when first > last."""

    first: int
    last: int

    FOREVER = 0x7FFF

    @staticmethod
    def parse(text):
        if text is None or text == "none":
            return Versions(1, 0)
        if text.endswith("+"):
            return Versions(int(text[:-1]), Versions.FOREVER)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __and__(self, other):
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def __contains__(self, version):
        return self.first <= version <= self.last

    def is_empty(self):
        return self.first > self.last


@dataclass
class Field:
    name: str
    type: str  # without the leading "[]"
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: str | None  # as the schema has it, in text

    def is_struct(self):
        return self.type[0].isupper()

    def is_optional(self):
        """Whether the Rust field is an Option. Fetched records are not: they read null as nothing."""
        return not self.nullable.is_empty()


# Fields of our own, of structs that requests and responses declare. Kafka's brokers and clients pass over tags that they do not know; these
# numbers are far from those that Kafka gives away one by one.
OWN_FIELDS = {
    # The position that the first record is to have, or nothing is appended; -1: any.
    "PartitionProduceData": [
        {"name": "IfTail", "type": "int64", "versions": "9+", "taggedVersions": "9+", "tag": 10001, "default": "-1"}
    ],
    # Where it has another one, the first position that has no record yet; else -1.
    "PartitionProduceResponse": [
        {"name": "Tail", "type": "int64", "versions": "9+", "taggedVersions": "9+", "tag": 10001, "default": "-1"}
    ],
}


@dataclass
class Struct:
    name: str
    fields: list


@dataclass
class Message:
    """One request or response, with the structs it uses in the order in which the schema mentions them."""

    name: str
    kind: str  # "request" or "response"
    api_key: int
    versions: Versions
    flexible: Versions
    root: Struct
    structs: list = field(default_factory=list)

    def struct(self, name):
        return next(struct for struct in self.structs if struct.name == name)


@dataclass
class Api:
    name: str
    key: int
    versions: Versions
    flexible: Versions
    request: Message
    response: Message


def read_api(jar, name):
    request, response = (read_json(jar, f"{name}{kind}") for kind in ("Request", "Response"))
    versions = Versions.parse(request["validVersions"])
    if request.get("latestVersionUnstable"):
        versions = Versions(versions.first, versions.last - 1)
    messages = [read_message(raw, versions) for raw in (request, response)]
    return Api(name, request["apiKey"], versions, messages[0].flexible, *messages)


def read_json(jar, name):
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(f"common/message/{name}.json").decode()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def read_message(raw, versions):
    flexible = Versions.parse(raw["flexibleVersions"]) & versions
    message = Message(raw["name"], raw["type"], raw["apiKey"], versions, flexible, None)
    message.root = Struct(raw["name"], read_fields(raw["fields"], message))
    for common in raw.get("commonStructs", []):
        message.structs.append(Struct(common["name"], read_fields(common["fields"], message)))
    return message


def read_fields(raw_fields, message):
    """Reads fields, and appends the structs that they declare to the message."""
    fields = []
    for raw in raw_fields:
        if "flexibleVersions" in raw:
            raise ValueError(f"{message.name}.{raw['name']}: a field with its own encoding is not supported")
        versions = Versions.parse(raw["versions"]) & message.versions
        if versions.is_empty():
            continue
        declared = raw["type"].removeprefix("[]")
        type_name = RENAMED.get((message.name, declared), declared)
        default = raw.get("default")
        fields.append(
            Field(
                name=raw["name"],
                type=type_name,
                is_array=raw["type"].startswith("[]"),
                versions=versions,
                nullable=Versions.parse(raw.get("nullableVersions")) & versions,
                tagged=Versions.parse(raw.get("taggedVersions")) & versions,
                tag=raw.get("tag"),
                default=None if default is None else str(default).lower(),
            )
        )
        if raw.get("fields"):
            struct = Struct(type_name, [])
            message.structs.append(struct)
            own = OWN_FIELDS.get(type_name, [])
            struct.fields = read_fields(raw["fields"] + own, message)
        tagged = fields[-1].tagged
        if not tagged.is_empty() and tagged != versions:
            raise ValueError(f"{message.name}.{raw['name']}: tagged in some of its versions only")
    return fields
