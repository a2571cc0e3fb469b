// Keeps the progress page up to date: requests the part that changes, with its ETag.
// Without JavaScript the page is complete too, and reloads itself.
"use strict";

(() => {
  const WAIT_S_MAX = 120;
  const main = document.querySelector("main");
  const offline = document.getElementById("offline");
  const announcement = document.getElementById("announcement");
  const kept = `headgate ${main.dataset.job}`;
  let etag = document.body.dataset.etag;
  let furthest = 0;
  let failures = 0;
  let asking = false;
  let timer;

  // Users must not see progress go back: the bar only grows, whatever the server counts.
  function keepFurthest(part) {
    const bar = part.querySelector("progress[value]");
    if (!bar) return;
    furthest = Math.max(furthest, Number(bar.getAttribute("value")));
    try {
      furthest = Math.max(furthest, Number(sessionStorage.getItem(kept)));
      sessionStorage.setItem(kept, furthest);
    } catch {
      // Storage may be forbidden: then the value lasts until the page is left.
    }
    bar.setAttribute("value", furthest);
    part.querySelector("#percent").textContent = `${Math.floor(furthest)}%`;
  }

  // Changes only what differs, so that focus, selection and open details stay as they are.
  function morph(here, next) {
    if (here.isEqualNode(next)) return;
    if (here.nodeType !== 1 || here.nodeName !== next.nodeName || here.id !== next.id) {
      here.replaceWith(next);
      return;
    }
    for (const { name } of [...here.attributes])
      if (name !== "open" && !next.hasAttribute(name)) here.removeAttribute(name);
    for (const { name, value } of [...next.attributes])
      if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    const old = [...here.childNodes];
    const fresh = [...next.childNodes];
    fresh.forEach((node, place) => (old[place] ? morph(old[place], node) : here.append(node)));
    old.slice(fresh.length).forEach((node) => node.remove());
  }

  function show(html) {
    const next = new DOMParser().parseFromString(html, "text/html").querySelector("main");
    const focused = main.contains(document.activeElement);
    keepFurthest(next);
    if (next.dataset.milestone !== main.dataset.milestone)
      announcement.textContent = next.dataset.milestone;
    morph(main, next);
    document.title = main.dataset.title;
    // When a focused button disappears, move the focus to the message.
    if (focused && !main.contains(document.activeElement)) document.getElementById("message").focus();
  }

  async function ask() {
    if (asking) return;
    asking = true;
    try {
      const answer = await fetch(location.pathname, {
        headers: { "X-Headgate-Fragment": "1", "If-None-Match": etag },
        signal: AbortSignal.timeout(20_000),
      });
      // The link has expired, or the job is gone: reload to show the server's page about it.
      if (answer.status === 404 || answer.status === 410) return location.reload();
      if (answer.status !== 200 && answer.status !== 304) throw new Error(answer.statusText);
      if (answer.status === 200) {
        show(await answer.text());
        etag = answer.headers.get("ETag");
      }
      failures = 0;
    } catch {
      failures += 1;
    } finally {
      asking = false;
    }
    offline.hidden = failures < 2;
    plan();
  }

  // Stops polling while the page is hidden, and when the job has ended.
  function plan() {
    clearTimeout(timer);
    const seconds = Number(main.dataset.pollAfterS);
    if (!seconds || document.hidden) return;
    timer = setTimeout(ask, Math.min(seconds * 2 ** failures, WAIT_S_MAX) * 1000);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else if (main.dataset.pollAfterS) ask();
  });
  keepFurthest(main);
  plan();
})();
