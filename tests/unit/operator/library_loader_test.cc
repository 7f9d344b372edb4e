// Goal: job libraries load into one process beside each other, through the one libweir, or are
// refused with the reason, before their code runs. Method: real shared libraries.
#include "common/operator/library_loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weir {
namespace {

std::string PathOf(const std::string& name) {
  return std::string(WEIR_TEST_BIN "/") + name + ".so";
}

std::string ErrorOf(const std::string& path) {
  StatusOr<const JobLibrary*> library = JobLibrary::Load(path);
  if (library.ok()) return "no error";
  EXPECT_EQ(library.status().domain(), ErrorDomain::kUser);
  return library.status().message();
}

// The object file that holds the code at `address`.
std::string ObjectOf(void* address) {
  Dl_info info = {};
  return ::dladdr(address, &info) != 0 ? std::filesystem::path(info.dli_fname).filename() : "";
}

TEST(LibraryLoaderTest, ThisExecutableUsesLibweirAlone) {
  EXPECT_EQ(ObjectOf(reinterpret_cast<void*>(&Registry::Global)).rfind("libweir.so", 0), 0u);
  EXPECT_EQ(ObjectOf(reinterpret_cast<void*>(&BuiltinTypes)).rfind("libweir.so", 0), 0u);
  EXPECT_EQ(ObjectOf(reinterpret_cast<void*>(&ParseType)).rfind("libweir.so", 0), 0u);
}

TEST(LibraryLoaderTest, LoadsOperatorsAndBuildsTheJob) {
  StatusOr<const JobLibrary*> library = JobLibrary::Load(PathOf("worst_delay_job"));
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ((*library)->registry().OperatorTypes(),
            (std::vector<std::string>{"throws", "worst_delay"}));
  const OperatorFactory* factory = (*library)->registry().FindOperator("worst_delay");
  ASSERT_NE(factory, nullptr);
  EXPECT_NE((*factory)(), nullptr);
  EXPECT_EQ(Registry::Global().FindOperator("worst_delay"), nullptr);

  StatusOr<JobGraph> graph = (*library)->BuildGraph({"--input", "in.csv", "output=out"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  StatusOr<Validated> validated = Validate(*graph, (*library)->type_lookup());
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_TRUE(validated->complete);
  ASSERT_EQ(validated->graph.vertices.size(), 3u);
  EXPECT_EQ(validated->graph.vertices[1].output_schema->ToString(),
            "(carrier STRING, dep_delay INT32)");
  EXPECT_EQ(validated->graph.edges[0].partitioning, Partitioning::kHash);

  EXPECT_EQ((*library)->BuildGraph({"input=x"}).status().message(),
            "job argument 'output' is missing: give it as --output value");
  EXPECT_EQ(JobLibrary::Load(PathOf("worst_delay_job")).value(), *library);
}

TEST(LibraryLoaderTest, TwoLibrariesWithOneTypeNameKeepTheirOwn) {
  const JobLibrary* first = JobLibrary::Load(PathOf("worst_delay_job")).value();
  const JobLibrary* second = JobLibrary::Load(PathOf("other_worst_delay_job")).value();
  const Schema input({{"a", Type::kInt64}});
  EXPECT_EQ(first->types().at("worst_delay").check({}, {input}).value()->ToString(), "(a INT64)");
  EXPECT_EQ(second->types().at("worst_delay").check({}, {input}).value()->ToString(),
            "(worst INT64)");

  StatusOr<JobGraph> graph = second->BuildGraph({"--rows=20"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  StatusOr<Validated> validated = Validate(*graph, second->type_lookup());
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->graph.name, "other");
  EXPECT_EQ(validated->options.parallelism, 2);
  EXPECT_EQ(validated->graph.vertices[0].config.Integer("rows").value(), 20);
  EXPECT_EQ(validated->graph.FindVertex("filter-1")->parallelism, 3);
  EXPECT_EQ(validated->graph.FindVertex("shape")->output_schema->ToString(),
            "(worst INT64, twice INT64)");
  EXPECT_EQ(validated->graph.FindVertex("out")->parallelism, 1);
}

TEST(LibraryLoaderTest, ExceptionsOfUsersBecomeErrors) {
  const JobLibrary* library = JobLibrary::Load(PathOf("worst_delay_job")).value();
  EXPECT_EQ(library->types().at("throws").check({{"throw", true}}, {Schema()}).status().message(),
            "OutputSchema of 'throws' threw an exception: so be it");
  EXPECT_NE(library->BuildGraph({"throw=1"}).status().message().find("no job today"),
            std::string::npos);
}

TEST(LibraryLoaderTest, RefusesAnotherAbiVersionBeforeItsCodeRuns) {
  const std::string path = PathOf("wrong_abi_job");
  EXPECT_EQ(ErrorOf(path), "job library " + path +
                               " was built for weir 0.0.1 abi 0, this is weir " +
                               std::string(WEIR_ABI_VERSION) +
                               ": build it again with the headers of this version");
}

TEST(LibraryLoaderTest, RefusesWhatIsNoJobLibrary) {
  const std::string text = std::filesystem::temp_directory_path() / "weir_loader_test_text.so";
  std::ofstream(text) << "no library";
  EXPECT_EQ(ErrorOf(text), text + " is no whole shared library");
  std::filesystem::remove(text);
  EXPECT_EQ(ErrorOf("/nowhere/x.so"), "cannot read /nowhere/x.so: No such file or directory");
  EXPECT_EQ(ErrorOf("/"), "/ is no whole shared library");
  EXPECT_EQ(ErrorOf("/proc/self/exe"),
            "/proc/self/exe is no job library: it has no WEIR_JOB (weir/weir.h)");
}

TEST(LibraryLoaderTest, RefusesDoubledTypesEveryTime) {
  const std::string path = PathOf("doubled_type_job");
  const std::string error = "job library " + path + ": vertex type 'nothing' is registered twice";
  EXPECT_EQ(ErrorOf(path), error);
  EXPECT_EQ(ErrorOf(path), error);
}

TEST(LibraryLoaderTest, RefusesADamagedLibrary) {
  std::ifstream in(PathOf("worst_delay_job"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  bytes.resize(4096);  // headers that promise more
  const std::string path = std::filesystem::temp_directory_path() / "weir_loader_test_half.so";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(ErrorOf(path), path + " is no whole shared library");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace weir
