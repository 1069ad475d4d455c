#include "damacy/store/s3/aws_files.h"

#include <algorithm>
#include <fstream>

#include "damacy/core/formatted.h"
#include "damacy/core/text.h"
#include "damacy/store/s3/environment.h"

namespace damacy::s3 {
namespace {

constexpr std::size_t kFileBytes = 1 << 20;

std::string content_of(const char* variable, const char* below_home) {
  auto path = environment(variable);
  if (!path) {
    const auto home = environment("HOME");
    if (!home) return {};
    path = *home + below_home;
  } else if (path->starts_with("~/")) {
    path = environment("HOME").value_or("") + path->substr(1);
  }
  std::ifstream file(*path, std::ios::binary);
  std::string content(kFileBytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
}

// Also `key = value ; comment`.
std::string_view without_comment(std::string_view value) {
  for (const std::string_view mark : {" #", " ;", "\t#", "\t;"}) value = value.substr(0, value.find(mark));
  return value;
}

}  // namespace

std::map<std::string, AwsSection> parse_aws_file(std::string_view content) {
  std::map<std::string, AwsSection> out;
  AwsSection* section = nullptr;
  std::string outer;  // the field that indented lines are in
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view raw = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    const std::string_view line = trimmed(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const std::size_t close = line.find(']');
      section = close == line.npos ? nullptr : &out[std::string(trimmed(line.substr(1, close - 1)))];
      outer.clear();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (section == nullptr || equals == line.npos) continue;
    const std::string name(trimmed(line.substr(0, equals)));
    const std::string_view value = trimmed(without_comment(line.substr(equals + 1)));
    if (name.empty()) continue;
    const bool is_indented = raw[0] == ' ' || raw[0] == '\t';
    if (is_indented && !outer.empty()) {
      (*section)[formatted("{}.{}", outer, name)] = value;
      continue;
    }
    outer = value.empty() ? name : std::string();
    (*section)[name] = value;
  }
  return out;
}

std::optional<std::string> Profile::find(const std::string& field) const {
  const auto at = fields.find(field);
  if (at == fields.end() || at->second.empty()) return std::nullopt;
  return at->second;
}

Profile read_profile(const std::optional<std::string>& name) {
  Profile profile;
  profile.name = name ? *name : environment("AWS_PROFILE").value_or("default");
  auto config = parse_aws_file(content_of("AWS_CONFIG_FILE", "/.aws/config"));
  auto secret = parse_aws_file(content_of("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"));
  for (auto* const at : {&config, &secret})
    for (const std::string& section : {formatted("profile {}", profile.name), profile.name}) {
      const bool is_named = at == &secret || profile.name == "default" || section != profile.name;
      const auto found = at->find(section);
      if (found == at->end() || !is_named) continue;
      profile.is_found = true;
      for (const auto& [field, value] : found->second) profile.fields[field] = value;
    }
  return profile;
}

}  // namespace damacy::s3
