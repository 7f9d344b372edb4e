#include "common/daemon/shared_keys.h"

#include <filesystem>

#include "common/base/concat.h"

namespace weir {

std::vector<ConfigKey> SharedKeys() {
  using Kind = ConfigKey::Kind;
  return {
      {"advertise", Kind::kText, "",
       "HOST or HOST:PORT that others dial. Unset, it is the address listened on, or the name of "
       "this machine when that is all of its addresses."},
      {"insecure", Kind::kSwitch, "false",
       "Allow to listen where other machines can reach it, although connections are neither "
       "encrypted nor authenticated."},
      {"log_level", Kind::kText, "info", "What is logged: debug, info, warning or error."},
      {"log_file", Kind::kText, "", "File that the log is appended to. Unset: standard error."},
  };
}

StatusOr<Endpoint> ReadListenAddress(const DaemonConfig& config, const std::string& key) {
  StatusOr<Endpoint> address = ParseEndpoint(config.Text(key));
  if (!address.ok()) return address.status().WithContext(key);
  if (!IsLoopback(address->host) && !config.Switch("insecure")) {
    return InvalidArgumentError(Concat(
        key, " is '", config.Text(key),
        "', which other machines can reach, and nothing protects it: set insecure to true to "
        "allow that, or listen on a loopback address such as 127.0.0.1:",
        address->port));
  }
  return address;
}

StatusOr<SharedConfig> ReadSharedKeys(const DaemonConfig& config) {
  SharedConfig shared;
  WEIR_ASSIGN_OR_RETURN(shared.listen, ReadListenAddress(config, "listen"));
  StatusOr<Endpoint> advertised = ParseAdvertised(config.Text("advertise"));
  if (!advertised.ok()) return advertised.status().WithContext("advertise");
  shared.advertised = *advertised;
  WEIR_ASSIGN_OR_RETURN(shared.log_level, log::ParseLevel(config.Text("log_level")));
  shared.log_file = config.Text("log_file");
  return shared;
}

StatusOr<std::string> AbsolutePath(const std::string& key, const std::string& path) {
  if (path.empty()) return InvalidArgumentError(Concat(key, " is empty: expected a directory"));
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return InvalidArgumentError(Concat(key, " '", path, "': ", error.message()));
  std::string normal = absolute.lexically_normal().string();
  if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

std::vector<DaemonCommandLine::Section> SharedSections(const std::string& on_signal) {
  return {
      {"SIGNALS", Concat("SIGTERM, SIGINT: ", on_signal, " A second signal ends it at once.")},
      {"EXIT STATUS",
       "0 after a signal; 1 when it cannot start or go on; 2 for a wrong flag or config file."},
  };
}

}  // namespace weir
