// Which engines there are, which serve a file, and why others do not. Knows names and reasons; moves nothing.
#pragma once

#include <string>

#include "damacy/io/file.h"

namespace damacy {

struct UringProbe {
  bool usable = false;
  std::string why;  // not
};

// Set up once, asked for its operations, and closed. The answer stays.
const UringProbe& probe_uring();

// Empty: device requests of this file go through cuFile; else why not. Loads libcufile unless the mode is ON.
std::string why_no_cufile(const File& file);
void register_with_cufile(File& file);  // once; throws FileError

}  // namespace damacy
