// The page of `ccp play --browser` and of the playground. `connection.json` says which of them it is.

import { Server, Simulator } from "./engines.js";
import { page, receive, say } from "./view.js";

const connection = await (await fetch("connection.json")).json();
if (connection.events) {
  page.engine = new Server(connection, (message) => {
    if (message.type === "gone") say("no connection to `ccp play`");
    else receive(message);
  });
} else {
  page.engine = new Simulator(connection); // loads while the rest of the page does
  (await import("./playground.js")).open(page.engine, connection.algorithms);
}
