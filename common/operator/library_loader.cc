#include "common/operator/library_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "common/base/concat.h"

namespace weir {
namespace {

constexpr int kInputsMax = 64;
constexpr size_t kVersionBytesMax = 100;

// Calls into a library, whose authors may use exceptions, where ours do not.
template <typename F>
Status CallUserCode(std::string_view what, F f) {
  try {
    return f();
  } catch (const std::exception& error) {
    return InvalidArgumentError(Concat(what, " threw an exception: ", error.what()));
  } catch (...) {
    return InvalidArgumentError(Concat(what, " threw an exception"));
  }
}

// The version behind the marker in the bytes of a library; no value without a marker.
std::optional<std::string> FindAbiVersion(std::string_view bytes) {
  constexpr std::string_view kMarker = WEIR_ABI_MARKER;
  const size_t at = bytes.find(kMarker);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = bytes.substr(at + kMarker.size(), kVersionBytesMax);
  return std::string(rest.substr(0, rest.find('\n')));
}

// Whether all that the dynamic linker will map is in the file: it trusts the headers, and a library
// that is cut off would end the process.
bool IsWholeSharedLibrary(std::string_view bytes) {
  Elf64_Ehdr header = {};
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phoff > bytes.size() ||
      header.e_phnum > (bytes.size() - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return false;
  }
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset) {
      return false;
    }
  }
  return true;
}

Status CheckAbi(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return InvalidArgumentError(ErrnoError(errno, Concat("cannot read ", path)).message());
  struct stat info = {};
  void* bytes = MAP_FAILED;
  size_t size = 0;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    size = static_cast<size_t>(info.st_size);
    bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  ::close(fd);
  const std::string_view view(static_cast<const char*>(bytes), bytes == MAP_FAILED ? 0 : size);
  const bool is_library = IsWholeSharedLibrary(view);
  const std::optional<std::string> version = is_library ? FindAbiVersion(view) : std::nullopt;
  if (bytes != MAP_FAILED) ::munmap(bytes, size);
  if (!is_library) return InvalidArgumentError(Concat(path, " is no whole shared library"));
  if (!version.has_value()) {
    return InvalidArgumentError(
        Concat(path, " is no job library: it has no WEIR_JOB (weir/weir.h)"));
  }
  if (*version == WEIR_ABI_VERSION) return {};
  return InvalidArgumentError(Concat("job library ", path, " was built for weir ", *version,
                                     ", this is weir ", WEIR_ABI_VERSION,
                                     ": build it again with the headers of this version"));
}

TypeDescriptor DescribeOperator(const std::string& type, const OperatorFactory& factory) {
  TypeDescriptor descriptor;
  descriptor.type = type;
  descriptor.help = "An operator of the job's library.";
  descriptor.inputs_max = kInputsMax;
  descriptor.any_field = true;
  descriptor.check = [type, &factory](
                         const Config& config,
                         const std::vector<Schema>& inputs) -> StatusOr<std::optional<Schema>> {
    std::optional<Schema> schema;
    Status status = CallUserCode(Concat("OutputSchema of '", type, "'"), [&]() -> Status {
      std::unique_ptr<Operator> instance = factory();
      WEIR_ASSIGN_OR_RETURN(Schema made, instance->OutputSchema(config, inputs));
      WEIR_ASSIGN_OR_RETURN(schema, Schema::Make(made.fields()));
      return {};
    });
    if (!status.ok()) return status;
    return schema;
  };
  return descriptor;
}

}  // namespace

StatusOr<const JobLibrary*> JobLibrary::Load(const std::string& path) {
  struct Loaded {
    std::unique_ptr<JobLibrary> library;
    Status status;
  };
  static std::mutex mutex;
  // By the dynamic linker's handle: it is the one who says what is the same library. One that was
  // refused stays too: what its initialisers left behind refers to its code.
  static auto* libraries = new std::map<void*, Loaded>();
  // dlopen looks for a name without a slash elsewhere.
  const std::string file = path.find('/') == std::string::npos ? Concat("./", path) : path;
  WEIR_RETURN_IF_ERROR(CheckAbi(file));

  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<JobLibrary> library(new JobLibrary(file));
  void* handle = nullptr;
  {
    Registry::Scope scope(library->registry_);
    handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    const char* error = ::dlerror();
    return InvalidArgumentError(
        Concat("cannot load job library ", file, ": ", error != nullptr ? error : "no reason"));
  }
  auto found = libraries->find(handle);
  if (found == libraries->end()) {
    Status status = library->Describe(handle).WithContext(Concat("job library ", file));
    found = libraries->emplace(handle, Loaded{std::move(library), std::move(status)}).first;
  }
  if (!found->second.status.ok()) return found->second.status;
  return static_cast<const JobLibrary*>(found->second.library.get());
}

Status JobLibrary::Describe(void* handle) {
  WEIR_RETURN_IF_ERROR(registry_.TakeErrors());
  for (const std::string& type : registry_.OperatorTypes()) {
    if (BuiltinTypes().count(type) != 0) {
      return InvalidArgumentError(
          Concat("operator type '", type, "' is built in: expected another name"));
    }
    types_.emplace(type, DescribeOperator(type, *registry_.FindOperator(type)));
  }
  build_ = reinterpret_cast<BuildFunction>(::dlsym(handle, "weir_build_job"));
  if (build_ == nullptr) return InvalidArgumentError("it has no function weir_build_job");
  return {};
}

StatusOr<JobGraph> JobLibrary::BuildGraph(const std::vector<std::string>& arguments) const {
  WEIR_ASSIGN_OR_RETURN(JobArguments parsed, JobArguments::Parse(arguments));
  JobGraph graph;
  WEIR_RETURN_IF_ERROR(CallUserCode(Concat("WEIR_JOB of ", path_), [&]() -> Status {
    JobBuilder builder(graph);
    build_(builder, parsed);
    return {};
  }));
  WEIR_RETURN_IF_ERROR(parsed.Check());
  return graph;
}

TypeLookup JobLibrary::type_lookup() const {
  return [this](const std::string& type) -> const TypeDescriptor* {
    auto found = types_.find(type);
    return found == types_.end() ? nullptr : &found->second;
  };
}

}  // namespace weir
