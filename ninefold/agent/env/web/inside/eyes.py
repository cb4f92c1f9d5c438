"""How a page is looked at: JavaScript for a world of its own, which shares the page's elements and none of its functions."""

from __future__ import annotations

EYES = r"""
globalThis.eyes ??= (() => {
  const all = where => [...document.querySelectorAll(where)];
  const shown = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true})
    && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().height > 0;
  const centre = e => {
    e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    const box = e.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const onTop = e => {
    const top = document.elementFromPoint(...centre(e));
    return top !== null && (e.contains(top) || top.contains(e));
  };
  const visible = where => all(where).filter(e => shown(e) && onTop(e));
  const text = e => (e.innerText ?? e.textContent ?? "").replace(/\s+/g, " ").trim();
  const box = e => {
    const {x, y, width, height} = e.getBoundingClientRect();
    return [x + scrollX, y + scrollY, width, height].map(Math.round);
  };
  const drawn = /^(img|canvas|video|object|embed|iframe|image)$/i;
  const painted = style => style.backgroundImage.includes("url(") || style.content.includes("url(");
  const covers = (width, height) => width * height >= innerWidth * innerHeight / 2;
  const said = e => [...e.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim()).map(node => {
    const range = document.createRange();
    range.selectNode(node);
    return [node.data.replace(/\s+/g, " ").trim(), getComputedStyle(e).color, ...box(range)];
  });
  const bare = ["rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"];
  return {
    pause: () => new Promise(done => {
      setTimeout(done, 200);
      setTimeout(() => requestAnimationFrame(() => setTimeout(done)));
    }),
    title: () => document.title,
    see: where => visible(where).map(text).filter(said => said),
    read: (where, name) => all(where).map(e => name === "value" ? e.value : e.getAttribute(name)),
    boxes: where => visible(where).map(box),
    target: where => {
      const [first] = all(where);
      if (!first) return "is not there";
      if (!shown(first)) return "cannot be seen";
      if (first.disabled) return "is disabled";
      if (!onTop(first)) return "is covered by something else";
      return centre(first);
    },
    choose: (where, value) => {
      const [e] = all(where);
      e.value = value;
      for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, {bubbles: true}));
      return e.value === value;
    },
    focus: where => { const [e] = all(where); e.focus(); e.select?.(); return document.activeElement === e; },
    picture: () => {
      for (const e of document.querySelectorAll("*")) {
        const {x, y, width, height} = e.getBoundingClientRect();
        const seen = [Math.min(x + width, innerWidth) - Math.max(x, 0), Math.min(y + height, innerHeight) - Math.max(y, 0)];
        const image = drawn.test(e.tagName) || painted(getComputedStyle(e));
        if (image && Math.min(...seen) > 0 && covers(...seen)) return e.tagName.toLowerCase();
        for (const side of ["::before", "::after"]) {
          const style = getComputedStyle(e, side);
          if (painted(style) && covers(parseFloat(style.width) || 0, parseFloat(style.height) || 0)) return side;
        }
      }
      return "";
    },
    structure: () => all("body, body *").filter(shown).flatMap(e => {
      const ground = getComputedStyle(e).backgroundColor;
      return bare.includes(ground) ? said(e) : [["", ground, ...box(e)], ...said(e)];
    }),
  };
})();
"""
