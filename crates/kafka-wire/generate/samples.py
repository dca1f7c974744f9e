"""Rust source that fills messages with random content, for tests only: in each version exactly the fields that the
version has, so that what is written must come back equal."""

from rust import INTEGERS, choice, condition, snake


def sample_impl(writer):
    """`impl Sample` for one struct; `writer` is its StructWriter."""
    lines = [f"impl Sample for {writer.struct.name} {{"]
    lines += ["fn sample(seed: &mut Seed, version: i16) -> Self {", "let _ = (&seed, version);", "Self {"]
    for field in writer.struct.fields:
        lines.append(f"{snake(field.name)}: {sample_field(writer, field)},")
    return [*lines, "}", "}", "}\n"]


def sample_field(writer, field):
    value = sample_value(writer, field)
    if writer.is_optional(field):
        value = choice(condition(field.nullable, field.versions), f"seed.maybe(|seed| {value})", f"Some({value})")
    return choice(condition(field.versions, writer.within), value, writer.default(field)[0])


def sample_value(writer, field):
    element = sample_element(writer, field)
    return f"seed.several(|seed| {element})" if field.is_array else element


def sample_element(writer, field):
    if field.type in INTEGERS:
        return f"seed.next() as {INTEGERS[field.type][0]}"
    if field.type == "float64":
        return "Float64::from(seed.next() as f64)"
    if field.type == "bool":
        return "seed.coin()"
    if field.type == "string":
        return "seed.text()"
    if field.type == "uuid":
        return f"{writer.element_type(field)}(seed.uuid())"
    if writer.is_record_chunks(field):
        return "seed.record_chunks()"
    if field.type in ("bytes", "records"):
        return "seed.bytes()"
    return f"{field.type}::sample(seed, version)"
