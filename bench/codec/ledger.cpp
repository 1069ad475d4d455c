#include "ledger.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace damacy::bench {

Ledger::Ledger(std::string file) : file_(std::move(file)) {
  std::ifstream in(file_);
  std::string line, subject, word;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    Entry entry;
    if (words >> subject >> word >> entry.frames >> word >> entry.on_device >> word >> entry.checked >> word >>
        entry.batches >> word >> entry.findings)
      entries_[subject] = entry;
  }
}

// Replaces the file atomically, because a time limit may end a run at any moment.
void Ledger::save() const {
  if (file_.empty()) return;
  const std::string temporary = file_ + ".new";
  {
    std::ofstream out(temporary);
    for (const auto& [subject, entry] : entries_)
      out << subject << " frames " << entry.frames << " on_device " << entry.on_device << " checked " << entry.checked
          << " batches " << entry.batches << " findings " << entry.findings << '\n';
  }
  std::rename(temporary.c_str(), file_.c_str());
}

}  // namespace damacy::bench
