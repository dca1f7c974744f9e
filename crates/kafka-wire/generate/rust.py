"""Rust source for schemas: one struct, its default, its reading and its writing at a time.

The generated code only says which field stands where in which version. Lengths, counts, nulls and tags are the
business of the hand-written reader and writer in src/codec."""

import re

INTEGERS = {"int8": ("i8", 1), "int16": ("i16", 2), "uint16": ("u16", 2), "int32": ("i32", 4), "int64": ("i64", 8)}
# The rest with a size of their own: bytes.
FIXED = {"uuid": 16, "float64": 8, "bool": 1}
KEYWORDS = {"type", "match", "ref", "move", "self", "mod", "use", "where", "loop"}


def snake(name):
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return f"r#{name}" if name in KEYWORDS else name


def condition(versions, within):
    """The Rust condition for being in `versions`, given that the version is in `within`; None where it always holds."""
    low, high = versions.first > within.first, versions.last < within.last
    if low and high:
        if versions.first == versions.last:
            return f"version == {versions.first}"
        return f"({versions.first}..={versions.last}).contains(&version)"
    if low:
        return f"version >= {versions.first}"
    if high:
        return f"version <= {versions.last}"
    return None


def choice(cond, then, otherwise):
    return then if cond is None else f"if {cond} {{ {then} }} else {{ {otherwise} }}"


def range_text(versions, within):
    if versions.last == within.last:
        return f"{versions.first}+"
    return str(versions.first) if versions.first == versions.last else f"{versions.first} to {versions.last}"


class StructWriter:
    """Emits one struct of one message."""

    def __init__(self, struct, message):
        self.struct = struct
        self.message = message
        self.within = message.versions
        self.plain = [field for field in struct.fields if field.tagged.is_empty()]
        self.tagged = sorted((field for field in struct.fields if not field.tagged.is_empty()), key=lambda f: f.tag)

    # Types and defaults.

    def is_record_chunks(self, field):
        return field.type == "records" and self.message.kind == "response"

    def is_optional(self, field):
        return field.is_optional() and not self.is_record_chunks(field)

    def element_type(self, field):
        if field.type in INTEGERS:
            return INTEGERS[field.type][0]
        if field.type == "uuid":
            return "TopicId" if field.name == "TopicId" else "Uuid"
        if field.type == "float64":
            return "Float64"
        if self.is_record_chunks(field):
            return "RecordChunks"
        simple = {"bool": "bool", "string": "Text", "bytes": "Bytes", "records": "Bytes"}
        return simple.get(field.type, field.type)

    def rust_type(self, field):
        inner = self.element_type(field)
        if field.is_array:
            inner = f"Vec<{inner}>"
        return f"Option<{inner}>" if self.is_optional(field) else inner

    def default(self, field):
        """The schema's default as a Rust expression, and whether it is also what Rust's Default would give."""
        if self.is_optional(field):
            # Kafka's own code takes records without a declared default as null, and everything else as empty.
            if field.default == "null" or (field.type == "records" and field.default is None):
                return "None", True
            return f"Some({self.plain_default(field)[0]})", False
        return self.plain_default(field)

    def plain_default(self, field):
        if field.is_array:
            return "Vec::new()", True
        if field.type in INTEGERS:
            value = int(field.default, 0) if field.default else 0
            rust, size = INTEGERS[field.type]
            if value == -(1 << (8 * size - 1)):
                return f"{rust}::MIN", False
            if value == (1 << (8 * size - 1)) - 1:
                return f"{rust}::MAX", False
            return str(value), value == 0
        if field.type == "bool":
            return field.default or "false", field.default != "true"
        if field.type == "string":
            return (f'Text::from_static("{field.default}")', False) if field.default else ("Text::EMPTY", True)
        if field.type == "bytes" or (field.type == "records" and not self.is_record_chunks(field)):
            return "Bytes::new()", True
        return f"{self.element_type(field)}::default()", True

    # Declarations.

    def doc(self, field):
        parts = []
        if field.versions != self.within:
            text = range_text(field.versions, self.within)
            parts.append(f"Version {text}" if text.isdigit() else f"Versions {text}")
        else:
            parts.append("All versions")
        if not field.tagged.is_empty():
            parts.append(f"tag {field.tag}")
        if self.is_optional(field):
            always = field.nullable == field.versions
            parts.append("nullable" if always else f"nullable in {range_text(field.nullable, self.within)}")
        expression, is_rust_default = self.default(field)
        if not is_rust_default:
            parts.append(f"default `{expression}`")
        return ", ".join(parts) + "."

    def declaration(self):
        derives = "Debug, Clone, PartialEq"
        derivable = all(self.default(field)[1] for field in self.struct.fields)
        if derivable:
            derives += ", Default"
        name = self.struct.name
        where = f"The {self.message.kind}" if self.is_root() else f"Part of [`{self.message.name}`]"
        if self.within.first == self.within.last:
            lines = [f"/// {where}, version {self.within.first}."]
        else:
            lines = [f"/// {where}, versions {self.within.first} to {self.within.last}."]
        lines += [f"#[derive({derives})]", f"pub struct {name} {{"]
        for field in self.struct.fields:
            lines += [f"/// {self.doc(field)}", f"pub {snake(field.name)}: {self.rust_type(field)},"]
        lines.append("}\n")
        if not derivable:
            lines += [f"impl Default for {name} {{", "fn default() -> Self {", "Self {"]
            lines += [f"{snake(field.name)}: {self.default(field)[0]}," for field in self.struct.fields]
            lines += ["}", "}", "}\n"]
        return lines

    def is_root(self):
        return self.struct is self.message.root

    def flexible_condition(self):
        """How the code asks whether the version is flexible: a constant where all or none are."""
        if self.message.flexible.is_empty():
            return "false"
        return condition(self.message.flexible, self.within) or "true"

    def needs_flexible(self):
        sized = any(field.is_array or field.type in ("string", "bytes", "records") for field in self.struct.fields)
        return sized or self.flexible_condition() not in ("true", "false")

    # Reading.

    def decode(self):
        name = self.struct.name
        body = []
        if self.is_root():
            body += [
                f"if !({self.within.first}..={self.within.last}).contains(&version) {{",
                f"return Err(WireError::UnsupportedVersion {{ api: ApiKey::{self.api_name()}, version }});",
                "}",
            ]
        if self.needs_flexible():
            body.append(f"let flexible = {self.flexible_condition()};")
        for field in self.plain:
            body.append(f"let {snake(field.name)} = {self.read_field(field)};")
        body += self.decode_tagged()
        body.append(f"Ok(Self {{ {', '.join(snake(field.name) for field in self.struct.fields)} }})")
        text = "\n".join(body)
        reader = "reader" if "reader." in text or "decode(reader" in text else "_reader"
        version = "version" if re.search(r"\bversion\b", text) else "_version"
        return [
            f"impl Decode for {name} {{",
            f"fn decode({reader}: &mut Reader, {version}: i16) -> Result<Self, WireError> {{",
            text,
            "}\n",
            *self.encoded_bytes_min(),
            "}\n",
        ]

    def api_name(self):
        return self.message.name.removesuffix("Request").removesuffix("Response")

    def read_field(self, field):
        present = self.read_value(field, nullable=False)
        if self.is_optional(field):
            present = choice(
                condition(field.nullable, field.versions),
                self.read_value(field, nullable=True),
                f"Some({present})",
            )
        cond = condition(field.versions, self.within)
        return choice(cond, present, self.default(field)[0])

    def read_value(self, field, nullable):
        prefix = "nullable_" if nullable else ""
        if field.is_array:
            element = self.read_element(field)
            return f"reader.{prefix}array(flexible, {self.bytes_min_expression(field)}, |reader| {element})?"
        if field.type == "string":
            return f"reader.{prefix}text(flexible)?"
        if self.is_record_chunks(field):
            return "reader.record_chunks(flexible)?"
        if field.type in ("bytes", "records"):
            return f"reader.{prefix}bytes(flexible)?"
        if field.is_struct() and nullable:
            return f"reader.nullable_struct(|reader| {self.read_element(field)})?"
        return f"{self.read_element(field)}?"

    def read_element(self, field):
        if field.type in INTEGERS:
            return f"reader.{field.type}()"
        if field.type == "float64":
            return "reader.float64()"
        if field.type == "bool":
            return "reader.boolean()"
        if field.type == "string":
            return "reader.text(flexible)"
        if field.type == "uuid":
            return f"reader.uuid().map({self.element_type(field)})"
        return f"{field.type}::decode(reader, version)"

    def decode_tagged(self):
        if self.message.flexible.is_empty():
            return []
        always = self.flexible_condition() == "true"
        if not self.tagged:
            skip = "reader.skip_tagged_fields()?;"
            return [skip] if always else ["if flexible {", skip, "}"]
        lines = [f"let mut {snake(field.name)} = {self.default(field)[0]};" for field in self.tagged]
        arms = []
        for field in self.tagged:
            cond = condition(field.versions, self.message.flexible)
            guard = f" if {cond}" if cond else ""
            arms.append(f"{field.tag}{guard} => {snake(field.name)} = {self.read_tagged(field)},")
        lines += [] if always else ["if flexible {"]
        lines += ["reader.tagged_fields(|reader, tag| {", "match tag {", *arms, "_ => return Ok(false),", "}"]
        lines += ["Ok(true)", "})?;"]
        return lines + ([] if always else ["}"])

    def read_tagged(self, field):
        return self.read_value(field, nullable=self.is_optional(field))

    # The fewest bytes a value takes, so that counts can be checked before anything is allocated.

    def encoded_bytes_min(self):
        sizes = [
            (version, self.bytes_min(self.struct, version))
            for version in range(self.within.first, self.within.last + 1)
        ]
        steps = []  # [first version, last version, size]
        for version, size in sizes:
            if steps and steps[-1][2] == size:
                steps[-1][1] = version
            else:
                steps.append([version, version, size])
        if len(steps) == 1:
            return ["fn encoded_bytes_min(_version: i16) -> usize {", str(steps[0][2]), "}"]
        lines = ["fn encoded_bytes_min(version: i16) -> usize {", "match version {"]
        for first, last, size in steps[:-1]:
            pattern = f"..={last}" if first == self.within.first else f"{first}..={last}"
            lines.append(f"{first if first == last else pattern} => {size},")
        return [*lines, f"_ => {steps[-1][2]},", "}", "}"]

    def bytes_min(self, struct, version):
        flexible = version in self.message.flexible
        total = 1 if flexible else 0  # the number of tagged fields
        for field in struct.fields:
            if version in field.versions and field.tagged.is_empty():
                total += self.field_bytes_min(field, version, flexible)
        return total

    def field_bytes_min(self, field, version, flexible):
        if field.is_array or field.type in ("bytes", "records"):
            return 1 if flexible else 4
        if field.type == "string":
            return 1 if flexible else 2
        if field.is_struct():
            nullable = version in field.nullable
            return 1 if nullable else self.bytes_min(self.message.struct(field.type), version)
        return FIXED.get(field.type) or INTEGERS[field.type][1]

    def bytes_min_expression(self, field):
        if field.is_struct():
            return f"{field.type}::encoded_bytes_min(version)"
        if field.type == "string":
            # A text is at least its length, whose width depends on the encoding.
            return "if flexible { 1 } else { 2 }"
        return str(FIXED.get(field.type) or INTEGERS[field.type][1])

    # Writing.

    def encode(self):
        body = []
        if self.is_root():
            body += [
                f"assert!(({self.within.first}..={self.within.last}).contains(&version),"
                f' "{self.message.name} has no version {{version}}");',
            ]
        if self.needs_flexible():
            body.append(f"let flexible = {self.flexible_condition()};")
        for field in self.plain:
            cond = condition(field.versions, self.within)
            statement = self.write_field(field)
            body.append(statement if cond is None else f"if {cond} {{ {statement} }}")
        body += self.encode_tagged()
        text = "\n".join(body)
        writer = "writer" if re.search(r"\bwriter\b", text) else "_writer"
        version = "version" if re.search(r"\bversion\b", text) else "_version"
        return [
            f"impl Encode for {self.struct.name} {{",
            f"fn encode(&self, {writer}: &mut Writer, {version}: i16) {{",
            text,
            "}",
            "}\n",
        ]

    def write_field(self, field):
        target = f"self.{snake(field.name)}"
        if not self.is_optional(field):
            return self.write_value(field, target, by_reference=True)
        nullable = self.write_nullable(field, target)
        cond = condition(field.nullable, field.versions)
        if cond is None:
            return nullable
        return choice(cond, nullable, self.write_null_as_empty(field, target))

    def write_null_as_empty(self, field, target):
        if field.is_array:
            return self.write_value(field, f"{target}.as_deref().unwrap_or_default()", by_reference=False)
        empty = {"string": "Text::EMPTY", "bytes": "Bytes::new()", "records": "Bytes::new()"}[field.type]
        return self.write_value(field, f"{target}.as_ref().unwrap_or(&{empty})", by_reference=False)

    def write_nullable(self, field, target):
        if field.is_array:
            return f"writer.nullable_array({target}.as_deref(), flexible, {self.write_element(field)});"
        if field.type == "string":
            return f"writer.nullable_text({target}.as_ref(), flexible);"
        if field.type in ("bytes", "records"):
            return f"writer.nullable_bytes({target}.as_ref(), flexible);"
        return f"writer.nullable_struct({target}.as_ref(), {self.write_element(field)});"

    def write_value(self, field, target, by_reference):
        borrowed = f"&{target}" if by_reference else target
        if field.is_array:
            return f"writer.array({borrowed}, flexible, {self.write_element(field)});"
        if field.type == "string":
            return f"writer.text({borrowed}, flexible);"
        if self.is_record_chunks(field):
            return f"writer.record_chunks({borrowed}, flexible);"
        if field.type in ("bytes", "records"):
            return f"writer.bytes({borrowed}, flexible);"
        if field.type == "uuid":
            return f"writer.uuid({target}.0);"
        if field.is_struct():
            return f"{target}.encode(writer, version);"
        if field.type == "int16" and target.endswith("error_code"):
            return f"writer.error_code({target});"
        return f"writer.{'boolean' if field.type == 'bool' else field.type}({target});"

    def write_element(self, field):
        if field.is_struct():
            return "|writer, element| element.encode(writer, version)"
        if field.type == "string":
            return "|writer, element| writer.text(element, flexible)"
        if field.type == "uuid":
            return "|writer, element| writer.uuid(element.0)"
        return f"|writer, element| writer.{'boolean' if field.type == 'bool' else field.type}(*element)"

    def encode_tagged(self):
        """Tagged fields go last, in ascending order, and only those that differ from their default."""
        if self.message.flexible.is_empty():
            return []
        always = self.flexible_condition() == "true"
        if not self.tagged:
            lines = ["writer.unsigned_varint(0);"]
        else:
            lines = []
            for field in self.tagged:
                cond = condition(field.versions, self.message.flexible)
                differs = self.differs_from_default(field)
                present = f"{cond} && {differs}" if cond else differs
                lines.append(f"let has_{snake(field.name)} = {present};")
            count = " + ".join(f"u32::from(has_{snake(field.name)})" for field in self.tagged)
            lines.append(f"writer.unsigned_varint({count});")
            for field in self.tagged:
                lines += [
                    f"if has_{snake(field.name)} {{",
                    f"writer.tagged_field({field.tag}, |writer| {{ {self.write_tagged(field)} }});",
                    "}",
                ]
        return lines if always else ["if flexible {", *lines, "}"]

    def write_tagged(self, field):
        target = f"self.{snake(field.name)}"
        if self.is_optional(field):
            return self.write_nullable(field, target)
        return self.write_value(field, target, by_reference=True)

    def differs_from_default(self, field):
        target = f"self.{snake(field.name)}"
        if self.is_optional(field) and field.default == "null":
            return f"{target}.is_some()"
        if field.is_array and not self.is_optional(field):
            return f"!{target}.is_empty()"
        if field.type == "bool":
            return target if field.default != "true" else f"!{target}"
        return f"{target} != {self.default(field)[0]}"

    def emit(self):
        return [*self.declaration(), *self.decode(), *self.encode()]
