#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace weir {

// One thing that can be configured, by the key `name` in the file and by a flag (heartbeat_timeout
// is --heartbeat-timeout).
struct ConfigKey {
  enum class Kind { kText, kDuration, kInteger, kSwitch, kTextList };
  std::string name;
  Kind kind = Kind::kText;
  std::string default_value;  // as one would write it; of a list, separated by commas
  std::string help;
  bool flag_only = false;  // not in the file
};

// The values of all keys of a daemon. Thread: immutable.
class DaemonConfig {
 public:
  // REQUIRES: a key of that name and kind.
  const std::string& Text(std::string_view name) const;
  int64_t DurationUs(std::string_view name) const;
  int64_t Integer(std::string_view name) const;
  bool Switch(std::string_view name) const;
  const std::vector<std::string>& TextList(std::string_view name) const;

 private:
  friend class DaemonCommandLine;
  struct Value {
    ConfigKey::Kind kind = ConfigKey::Kind::kText;
    std::string text;
    int64_t number = 0;  // durations in microseconds
    std::vector<std::string> list;
  };
  const Value& Get(std::string_view name, ConfigKey::Kind kind) const;

  std::map<std::string, Value, std::less<>> values_;
};

// The command line of a daemon: `NAME [--config FILE] [--key VALUE …]`, `--help`, `--version`.
class DaemonCommandLine {
 public:
  struct Section {
    std::string title;  // "SIGNALS"
    std::string text;
  };
  struct Manual {
    std::string program;  // "weir-worker"
    std::string summary;  // one line
    std::string description;
    std::string config_file;  // where one usually lies, for the synopsis: "worker.yaml"
    std::vector<Section> sections;
  };

  DaemonCommandLine(Manual manual, std::vector<ConfigKey> keys);

  // Flags over file over defaults. Anything unknown or wrong is a user error that names key, value
  // and place, what is valid, and the nearest known name.
  struct Parsed {
    std::string print;  // not empty: asked for help or version; print it and exit 0
    DaemonConfig config;
  };
  StatusOr<Parsed> Parse(const std::vector<std::string>& arguments) const;
  // As a manual page: NAME, SYNOPSIS, DESCRIPTION, OPTIONS, the sections of the manual.
  std::string Help() const;

 private:
  const ConfigKey* Find(std::string_view name) const;
  Status Set(const ConfigKey& key, const std::vector<std::string>& texts, std::string_view place,
             DaemonConfig* config) const;
  Status ReadFile(const std::string& path, DaemonConfig* config) const;

  const Manual manual_;
  const std::vector<ConfigKey> keys_;
};

}  // namespace weir
