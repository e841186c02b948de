// Plays `manifest.mpd`, and reports downloads and playback on the console, in lines of JSON. Its options follow the `#`
// of the URL.
"use strict";

const order = new URLSearchParams(location.hash.slice(1));
const video = document.getElementById("video");

// Times are in ms since 1970, by the machine's clock.
function emit(kind, what) {
  console.log("player " + JSON.stringify({ kind, ...what }));
}

new PerformanceObserver((list) => {
  for (const one of list.getEntries()) {
    emit("download", {
      path: new URL(one.name).pathname,
      body_bytes: one.encodedBodySize,
      start_ms: performance.timeOrigin + one.startTime,
      first_byte_ms: performance.timeOrigin + one.responseStart,
      end_ms: performance.timeOrigin + one.responseEnd,
      new_connection: one.connectEnd > one.connectStart,
    });
  }
}).observe({ type: "resource", buffered: true });

for (const kind of ["playing", "waiting", "ended"]) {
  video.addEventListener(kind, () => {
    emit(kind, { at_ms: performance.timeOrigin + performance.now(), position_s: video.currentTime });
  });
}

emit("opened", { at_ms: performance.timeOrigin });

const player = dashjs.MediaPlayer().create();
player.updateSettings({
  streaming: {
    buffer: {
      bufferTimeDefault: Number(order.get("buffer_s")),
      bufferTimeAtTopQuality: Number(order.get("buffer_s")),
      fastSwitchEnabled: false, // each segment is downloaded once
    },
    abr: {
      rules: {
        throughputRule: { active: order.get("abr") !== "bola" },
        bolaRule: { active: order.get("abr") !== "throughput" },
        droppedFramesRule: { active: false }, // the machine drops frames, not the network
      },
    },
  },
});
player.on(dashjs.MediaPlayer.events.ERROR, (event) => emit("error", { message: event.error.message }));
player.initialize(video, new URL("manifest.mpd", location.href).href, true);
