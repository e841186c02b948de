// The page of `ccp play --browser` and of the playground. `connection.json` says which of them it is.

import { Server } from "./engines.js";
import { page, receive, say } from "./view.js";

const connection = await (await fetch("connection.json")).json();
if (connection.events) {
  page.engine = new Server(connection, (message) => {
    if (message.type === "gone") say("no connection to `ccp play`");
    else receive(message);
  });
} else {
  (await import("./playground.js")).open(connection);
}
