// The page of `ccp play --browser` and of the playground. `connection.json` says which of them it is.

import { Server, Simulator } from "./engines.js";

const connection = await (await fetch("connection.json")).json();
const simulator = connection.events ? null : new Simulator(connection); // loads while the rest of the page does
const { page, receive, say } = await import("./view.js");
if (simulator) {
  page.engine = simulator;
  (await import("./playground.js")).open(simulator, connection.algorithms);
} else {
  page.engine = new Server(connection, (message) => {
    if (message.type === "gone") say("no connection to `ccp play`");
    else receive(message);
  });
}
