#include "common/daemon/daemon_config.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/names.h"
#include "common/base/version.h"
#include "common/graph/job_options.h"

namespace weir {
namespace {

constexpr size_t kHelpIndent = 7;
constexpr size_t kHelpColumns = 79;

std::string FlagOf(const ConfigKey& key) {
  std::string flag = "--" + key.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) items.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

std::string_view ValueName(ConfigKey::Kind kind) {
  switch (kind) {
    case ConfigKey::Kind::kText:
      return "TEXT";
    case ConfigKey::Kind::kDuration:
      return "DURATION";
    case ConfigKey::Kind::kInteger:
      return "NUMBER";
    case ConfigKey::Kind::kSwitch:
      return "";
    case ConfigKey::Kind::kTextList:
      return "LIST";
  }
  return "";
}

// `text` as paragraphs, each wrapped to the width of a page and indented.
void AppendWrapped(std::string_view text, size_t indent, std::string* out) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    // Lines that are indented already are kept as they are (examples).
    if (line.starts_with(' ') || line.empty()) {
      *out += line.empty() ? "\n" : std::string(indent, ' ') + line + "\n";
      continue;
    }
    std::istringstream words(line);
    std::string current;
    for (std::string word; words >> word;) {
      if (!current.empty() && indent + current.size() + 1 + word.size() > kHelpColumns) {
        *out += std::string(indent, ' ') + current + "\n";
        current.clear();
      }
      current += current.empty() ? word : " " + word;
    }
    *out += std::string(indent, ' ') + current + "\n";
  }
}

std::string Place(const std::string& path, const YAML::Mark& mark) {
  return mark.is_null() ? path : Concat(path, ":", mark.line + 1);
}

}  // namespace

const DaemonConfig::Value& DaemonConfig::Get(std::string_view name, ConfigKey::Kind kind) const {
  auto it = values_.find(name);
  WEIR_CHECK_MESSAGE(it != values_.end() && it->second.kind == kind, name);
  return it->second;
}

const std::string& DaemonConfig::Text(std::string_view name) const {
  return Get(name, ConfigKey::Kind::kText).text;
}
int64_t DaemonConfig::DurationUs(std::string_view name) const {
  return Get(name, ConfigKey::Kind::kDuration).number;
}
int64_t DaemonConfig::Integer(std::string_view name) const {
  return Get(name, ConfigKey::Kind::kInteger).number;
}
bool DaemonConfig::Switch(std::string_view name) const {
  return Get(name, ConfigKey::Kind::kSwitch).number != 0;
}
const std::vector<std::string>& DaemonConfig::TextList(std::string_view name) const {
  return Get(name, ConfigKey::Kind::kTextList).list;
}

DaemonCommandLine::DaemonCommandLine(Manual manual, std::vector<ConfigKey> keys)
    : manual_(std::move(manual)), keys_(std::move(keys)) {}

const ConfigKey* DaemonCommandLine::Find(std::string_view name) const {
  for (const ConfigKey& key : keys_) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// `place` is where the value stands: "--slots" or "worker.yaml:3: slots".
Status DaemonCommandLine::Set(const ConfigKey& key, const std::vector<std::string>& texts,
                              std::string_view place, DaemonConfig* config) const {
  DaemonConfig::Value value;
  value.kind = key.kind;
  value.text = texts.empty() ? "" : texts.back();
  auto wrong = [&](std::string_view expected) {
    return InvalidArgumentError(Concat(place, " is '", value.text, "': expected ", expected));
  };
  switch (key.kind) {
    case ConfigKey::Kind::kText:
      break;
    case ConfigKey::Kind::kDuration: {
      StatusOr<int64_t> us = ParseDuration(value.text);
      if (!us.ok()) return wrong("a duration, as in 250ms, 10s, 5min or 1h");
      value.number = *us;
      break;
    }
    case ConfigKey::Kind::kInteger: {
      const char* end = value.text.data() + value.text.size();
      auto [last, error] = std::from_chars(value.text.data(), end, value.number);
      if (error != std::errc() || last != end || value.number < 0) {
        return wrong("a whole number, 0 or more");
      }
      break;
    }
    case ConfigKey::Kind::kSwitch:
      if (value.text != "true" && value.text != "false") return wrong("true or false");
      value.number = value.text == "true" ? 1 : 0;
      break;
    case ConfigKey::Kind::kTextList:
      for (const std::string& text : texts) {
        for (std::string& item : SplitList(text)) value.list.push_back(std::move(item));
      }
      break;
  }
  config->values_[key.name] = std::move(value);
  return {};
}

Status DaemonCommandLine::ReadFile(const std::string& path, DaemonConfig* config) const {
  std::ifstream file(path);
  if (!file) return InvalidArgumentError(Concat("cannot read ", path, ": ", strerror(errno)));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return InvalidArgumentError(Concat("cannot read ", path, ": it is a directory"));
  }
  std::vector<std::string> names;
  for (const ConfigKey& key : keys_) {
    if (!key.flag_only) names.push_back(key.name);
  }
  try {
    YAML::Node root = YAML::Load(file);
    if (root.IsNull()) return {};
    if (!root.IsMap()) {
      return InvalidArgumentError(Concat(path, " holds no mapping: expected lines 'key: value'"));
    }
    std::set<std::string> seen;
    for (const auto& entry : root) {
      std::string place = Place(path, entry.first.Mark());
      if (!entry.first.IsScalar()) {
        return InvalidArgumentError(Concat(place, ": a key must be a name"));
      }
      const std::string& name = entry.first.Scalar();
      const ConfigKey* key = Find(name);
      if (key == nullptr || key->flag_only) {
        std::string nearest = NearestName(name, names);
        return InvalidArgumentError(Concat(place, ": unknown key '", name, "'",
                                           nearest.empty()
                                               ? "; --help lists the known ones"
                                               : Concat(": did you mean '", nearest, "'?")));
      }
      if (!seen.insert(name).second) {
        return InvalidArgumentError(Concat(place, ": key '", name, "' for the second time"));
      }
      std::vector<std::string> texts;
      bool list = key->kind == ConfigKey::Kind::kTextList;
      const YAML::Node& value = entry.second;
      if (value.IsScalar()) {
        texts.push_back(value.Scalar());
      } else if (value.IsSequence() && list) {
        for (const YAML::Node& item : value) {
          if (!item.IsScalar()) {
            return InvalidArgumentError(Concat(place, ": '", name, "' must list plain values"));
          }
          texts.push_back(item.Scalar());
        }
      } else if (!value.IsNull()) {
        return InvalidArgumentError(Concat(place, ": '", name, "' must be ",
                                           list ? "a list of plain values" : "one plain value"));
      } else {
        texts = {key->default_value};
      }
      WEIR_RETURN_IF_ERROR(Set(*key, texts, Concat(place, ": ", name), config));
    }
  } catch (const YAML::Exception& error) {
    return InvalidArgumentError(Concat(Place(path, error.mark), ": no valid YAML: ", error.msg));
  }
  return {};
}

StatusOr<DaemonCommandLine::Parsed> DaemonCommandLine::Parse(
    const std::vector<std::string>& arguments) const {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help = false;
  bool version = false;
  std::string config_path;
  app.add_flag("-h,--help", help);
  app.add_flag("--version", version);
  CLI::Option* config_option = app.add_option("--config", config_path);
  std::map<std::string, std::vector<std::string>> given;
  std::vector<std::string> flags = {"--help", "--version", "--config"};
  std::vector<std::pair<const ConfigKey*, CLI::Option*>> options;
  for (const ConfigKey& key : keys_) {
    std::string flag = FlagOf(key);
    flags.push_back(flag);
    CLI::Option* option = key.kind == ConfigKey::Kind::kSwitch
                              ? app.add_flag(flag, given[key.name])
                              : app.add_option(flag, given[key.name])->expected(1);
    // Else CLI11 takes what stands behind the value as one more, and the last one counts.
    option->allow_extra_args(false);
    option->multi_option_policy(key.kind == ConfigKey::Kind::kTextList
                                    ? CLI::MultiOptionPolicy::TakeAll
                                    : CLI::MultiOptionPolicy::TakeLast);
    options.emplace_back(&key, option);
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return InvalidArgumentError(error.what());
  }
  Parsed parsed;
  if (help) {
    parsed.print = Help();
    return parsed;
  }
  if (version) {
    parsed.print = Concat(manual_.program, " ", WEIR_VERSION, "\n");
    return parsed;
  }
  std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) {
    std::string name = extras[0].substr(0, extras[0].find('='));
    std::string nearest = NearestName(name, flags);
    return InvalidArgumentError(
        Concat(name.starts_with('-') ? "unknown flag '" : "unexpected argument '", name, "'",
               nearest.empty() ? "; --help lists the known flags"
                               : Concat(": did you mean ", nearest, "?")));
  }
  for (const ConfigKey& key : keys_) {
    WEIR_RETURN_IF_ERROR(Set(key, {key.default_value}, key.name, &parsed.config));
  }
  if (config_option->count() > 0) WEIR_RETURN_IF_ERROR(ReadFile(config_path, &parsed.config));
  for (auto [key, option] : options) {
    if (option->count() == 0) continue;
    WEIR_RETURN_IF_ERROR(Set(*key, given[key->name], FlagOf(*key), &parsed.config));
  }
  return parsed;
}

std::string DaemonCommandLine::Help() const {
  std::string out = "NAME\n";
  AppendWrapped(Concat(manual_.program, " - ", manual_.summary), kHelpIndent, &out);
  out += "\nSYNOPSIS\n";
  AppendWrapped(Concat(manual_.program, " [--config FILE] [--KEY VALUE ...]"), kHelpIndent, &out);
  out += "\nDESCRIPTION\n";
  AppendWrapped(manual_.description, kHelpIndent, &out);
  out += "\nOPTIONS\n";
  auto option = [&](std::string_view head, std::string_view help) {
    out += std::string(kHelpIndent, ' ') + std::string(head) + "\n";
    AppendWrapped(help, kHelpIndent + 7, &out);
    out += "\n";
  };
  option("--config FILE",
         Concat("Read keys from a YAML file, as in ", manual_.config_file,
                ". Each flag below is a key of that file, written with underscores; a flag goes "
                "before the file, the file before the default."));
  for (const ConfigKey& key : keys_) {
    std::string head = FlagOf(key);
    if (key.kind != ConfigKey::Kind::kSwitch) head += Concat(" ", ValueName(key.kind));
    std::string help = key.help;
    if (key.kind != ConfigKey::Kind::kSwitch && !key.default_value.empty()) {
      help += Concat(" Default: ", key.default_value, ".");
    }
    if (key.flag_only) help += " Only as a flag.";
    option(head, help);
  }
  option("-h, --help", "Print this page.");
  option("--version", "Print the version.");
  for (const Section& section : manual_.sections) {
    out += section.title + "\n";
    AppendWrapped(section.text, kHelpIndent, &out);
    out += "\n";
  }
  out.pop_back();
  return out;
}

}  // namespace weir
