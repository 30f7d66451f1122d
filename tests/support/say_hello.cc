// say_hello ENDPOINT INSTANCE VERSION: joins a coordinator as a node of that protocol version and
// prints its answer: "refused field=FIELD why=TEXT" or "joined".

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "comm/runtime/thread_loop.h"
#include "comm/transport/zmq/zmq_transport.h"
#include "comm/wire/codec.h"
#include "comm/wire/control.pb.h"

int main(int argc, char** argv) {
  using namespace tandem;
  if (argc != 4) {
    std::fprintf(stderr, "usage: say_hello ENDPOINT INSTANCE VERSION\n");
    return 2;
  }
  ThreadLoop loop;
  int status = 1;
  {
    const auto node = transport::make_zmq_node(loop);
    transport::NodeHandlers handlers;
    handlers.on_connected = [&] {
      wire::Envelope envelope;
      envelope.set_from_incarnation(12345);
      wire::Hello& hello = *envelope.mutable_hello();
      hello.set_instance(argv[2]);
      hello.set_role(hello.instance().substr(0, hello.instance().rfind('-')));
      hello.set_protocol_version(static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)));
      (void)node->send(wire::encode(envelope));
    };
    handlers.on_message = [&](std::string bytes) {
      const auto answer = wire::decode(bytes);
      if (!answer.ok() || !answer->has_welcome()) return;
      const wire::Welcome& welcome = answer->welcome();
      if (welcome.refusal().empty()) {
        std::printf("joined\n");
      } else {
        std::printf("refused field=%s why=%s\n", welcome.refused_field().c_str(),
                    welcome.refusal().c_str());
      }
      status = 0;
      loop.stop();
    };
    node->connect(argv[1], std::move(handlers));
    loop.after(std::chrono::seconds(10), [&] { loop.stop(); });
    loop.run();
  }
  return status;
}
