// The files of AWS: ~/.aws/config and ~/.aws/credentials. Knows their format and which profile is meant; not what its
// fields are for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace damacy::s3 {

using AwsSection = std::map<std::string, std::string>;  // nested fields as `s3.addressing_style`

// By the text between the brackets.
[[nodiscard]] std::map<std::string, AwsSection> parse_aws_file(std::string_view content);

struct Profile {
  std::string name;
  bool is_found = false;
  AwsSection fields;  // of both files; the credentials file wins

  std::optional<std::string> find(const std::string& field) const;
};

// `name`, else AWS_PROFILE, else "default", in the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name,
// else those in the home directory. A file that cannot be read counts as empty.
[[nodiscard]] Profile read_profile(const std::optional<std::string>& name);

}  // namespace damacy::s3
