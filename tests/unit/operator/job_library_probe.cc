#include <weir/weir.h>

#include <iostream>

#include "common/graph/validate.h"
#include "common/operator/library_loader.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: job_library_probe LIBRARY [job arguments]\n";
    return 2;
  }
  auto fail = [](const weir::Status& status) {
    std::cerr << status << "\n";
    return 1;
  };
  weir::StatusOr<const weir::JobLibrary*> library = weir::JobLibrary::Load(argv[1]);
  if (!library.ok()) return fail(library.status());
  weir::StatusOr<weir::JobGraph> graph = (*library)->BuildGraph({argv + 2, argv + argc});
  if (!graph.ok()) return fail(graph.status());
  weir::StatusOr<weir::Validated> validated = Validate(*graph, (*library)->type_lookup());
  if (!validated.ok()) return fail(validated.status());
  std::cout << ToJson(validated->graph);
  return 0;
}
