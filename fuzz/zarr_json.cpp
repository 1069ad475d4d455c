// JSON: any bytes give a tree or an error; a tree written out and read again is the same tree.
#include "damacy/zarr/json.h"

#include <iterator>

#include "zarr_support.h"

namespace {

using namespace damacy;
using json::Document;
using json::Form;
using json::Kind;
using json::Value;

void write_string(std::string_view string, std::string& out) {
  out += '"';
  for (const char c : string) {
    constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\') {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void write(const Value& value, std::string& out) {
  switch (value.kind()) {
    case Kind::null:
      out += "null";
      return;
    case Kind::boolean:
      out += value.truth() ? "true" : "false";
      return;
    case Kind::number:
      out += value.text();
      return;
    case Kind::string:
      write_string(value.text(), out);
      return;
    case Kind::array:
    case Kind::object:
      break;
  }
  const bool is_object = value.is(Kind::object);
  out += is_object ? '{' : '[';
  std::size_t written = 0;
  for (const Value child : value) {
    if (written++ > 0) out += ',';
    if (is_object) {
      write_string(child.name(), out);
      out += ':';
    }
    write(child, out);
  }
  fuzz::require(written == value.size(), "all children are there");
  out += is_object ? '}' : ']';
}

bool accepts(std::string_view text, Form form) {
  try {
    Document::parse(text, form);
    return true;
  } catch (const Error& e) {
    fuzz::check_error(e);
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr Form kForms[] = {Form::v3_array, Form::v3_group, Form::v2_group, Form::attributes, Form::consolidated};
  if (!accepts(text, Form::plain)) {
    accepts(text, kForms[size % std::size(kForms)]);  // most inputs, so one form is enough
    return 0;
  }
  for (const Form form : kForms) fuzz::require(accepts(text, form), "what is legal everywhere is legal here");
  const Document document = Document::parse(text, Form::plain);
  std::string written, again;
  write(document.root(), written);
  const Document reread = Document::parse(written, Form::plain);
  write(reread.root(), again);
  fuzz::require(written == again, "written and read again");
  return 0;
}
