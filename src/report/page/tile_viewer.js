// SPDX-License-Identifier: Apache-2.0
// Draws every tile of a timeline, which can be zoomed and asked: what is this tile, and what did it wait for?
// The data lie in the page beside each canvas (tile_viewer.cpp).
'use strict';
for (const viewer of document.querySelectorAll('.tiles')) {
  const data = JSON.parse(viewer.querySelector('script').textContent);
  const canvas = viewer.querySelector('canvas'), said = viewer.querySelector('output');
  const [STAGE, TILE, SM, SPLIT, START, WAIT, READY, END] = [0, 1, 2, 3, 4, 5, 6, 7];
  const rows = Math.max(...data.tiles.map(tile => tile[SM])) + 1, row = Math.max(6, Math.min(22, 640 / rows));
  // The last part of each tile; and the lowest free place of each among those of its stage on the SM.
  const own = new Map(), lane = [], busy = new Map();
  data.tiles.forEach((tile, i) => {
    const key = tile[STAGE] + ':' + tile[TILE], last = own.get(key);
    if (last === undefined || data.tiles[last][END] < tile[END]) own.set(key, i);
    const place = tile[STAGE] + ':' + tile[SM], ends = busy.get(place) || [];
    const free = ends.findIndex(end => end <= tile[START]);
    lane.push(free < 0 ? ends.length : free), ends[lane[i]] = tile[END];
    busy.set(place, ends);
  });
  let from = 0, to = data.end, chosen = -1, drag = null;

  const name = tile => {
    const {name, extent, splits} = data.stages[tile[STAGE]];
    let left = tile[TILE];
    const at = extent.map((size, d) => {
      const one = d + 1 === extent.length ? left : left % size;
      left = Math.floor(left / size);
      return one;
    });
    return name + '(' + (at.length ? at : [left]).join(',') + (splits > 1 ? '/' + tile[SPLIT] : '') + ')';
  };
  const us = ns => (ns / 1000).toFixed(2) + ' us';
  const x = ns => (ns - from) / (to - from) * canvas.clientWidth;
  const place = i => {
    const tile = data.tiles[i], height = (row - 1) / data.stages[tile[STAGE]].at_once;
    return [row * tile[SM] + lane[i] * height, height];
  };

  // Tiles of a box [begin, end) in each dimension.
  const inBox = (box, extent) => {
    let tiles = [0], stride = 1;
    extent.forEach((size, d) => {
      const more = [];
      for (let one = box[2 * d]; one < box[2 * d + 1]; ++one)
        for (const tile of tiles) more.push(tile + one * stride);
      tiles = more, stride *= size;
    });
    return tiles;
  };
  // Of the tiles that a tile reads, their numbers in data.tiles, by dependence.
  const read = tile => data.dependences.filter(edge => edge.consumer === tile[STAGE]).map(edge => {
    const boxes = edge.boxes && edge.boxes.length ? edge.boxes[tile[TILE]] : [];
    const tiles = new Set(boxes.flatMap(box => inBox(box, data.stages[edge.producer].extent)));
    return {edge, tiles: [...tiles].map(one => own.get(edge.producer + ':' + one)).filter(i => i !== undefined)};
  });

  const draw = () => {
    const wide = canvas.clientWidth, high = Math.ceil(rows * row), dots = window.devicePixelRatio || 1;
    canvas.width = wide * dots, canvas.height = high * dots, canvas.style.height = high + 'px';
    const colours = data.stages.map((_, s) => getComputedStyle(viewer).getPropertyValue('--c' + s % 8).trim());
    const ink = getComputedStyle(viewer).color, pen = canvas.getContext('2d');
    pen.scale(dots, dots);
    data.tiles.forEach((tile, i) => {
      if (tile[END] < from || tile[START] > to) return;
      const [y, height] = place(i), colour = colours[tile[STAGE]];
      const box = (begin, end, alpha) => {
        pen.globalAlpha = alpha, pen.fillStyle = colour;
        if (end > begin) pen.fillRect(x(begin), y, Math.max(0.5, x(end) - x(begin) - 0.5), height);
      };
      box(tile[START], tile[WAIT], 0.6), box(tile[WAIT], tile[READY], 0.25), box(tile[READY], tile[END], 1);
    });
    pen.globalAlpha = 1;
    if (chosen < 0) return;
    const mark = (i, width) => {
      const tile = data.tiles[i], [y, height] = place(i);
      pen.lineWidth = width, pen.strokeStyle = ink;
      pen.strokeRect(x(tile[START]), y, x(tile[END]) - x(tile[START]), height);
    };
    const tile = data.tiles[chosen], [y, height] = place(chosen);
    mark(chosen, 2);
    for (const {tiles} of read(tile))
      for (const one of tiles) {
        const other = data.tiles[one], [above, size] = place(one);
        mark(one, 1);
        pen.beginPath(), pen.moveTo(x(other[END]), above + size / 2), pen.lineTo(x(tile[READY]), y + height / 2);
        pen.stroke();
      }
  };
  const choose = i => {
    chosen = i;
    said.textContent = 'No tile chosen.';
    if (i >= 0) {
      const tile = data.tiles[i];
      const waits = read(tile).map(({edge, tiles}) => {
        const producer = data.stages[edge.producer].name;
        if (!edge.boxes) return 'tiles of ' + producer + ' (too many to list)';
        if (!edge.boxes.length) return 'all of ' + producer;
        const last = tiles.reduce((late, one) => data.tiles[one][END] > data.tiles[late][END] ? one : late, tiles[0]);
        return tiles.length + ' of ' + producer + (last === undefined ? '' : ', the last ' + name(data.tiles[last]) +
               ' at ' + us(data.tiles[last][END]));
      });
      said.textContent = name(tile) + ' on SM ' + tile[SM] + ': ' + us(tile[START]) + ' to ' + us(tile[END]) +
          ', waits ' + us(tile[READY] - tile[WAIT]) + (waits.length ? '; reads ' + waits.join('; ') : '');
    }
    draw();
  };
  const at = event => {
    const bounds = canvas.getBoundingClientRect(), ns = from + (event.clientX - bounds.left) / bounds.width * (to - from);
    const down = event.clientY - bounds.top;
    const under = i => {
      const tile = data.tiles[i], [y, height] = place(i);
      return tile[START] <= ns && ns <= tile[END] && y <= down && down <= y + height;
    };
    let i = data.tiles.length - 1;  // the last is drawn on top
    while (i >= 0 && !under(i)) --i;
    return i;
  };
  const show = (begin, end) => {
    const width = Math.min(data.end, Math.max(end - begin, data.end / 2000));
    from = Math.max(0, Math.min(begin, data.end - width)), to = from + width;
    draw();
  };
  const zoom = (factor, around) => show(around - (around - from) * factor, around + (to - around) * factor);

  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.shiftKey) return;  // the page scrolls
    event.preventDefault();
    const bounds = canvas.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, from + (event.clientX - bounds.left) / bounds.width * (to - from));
  }, {passive: false});
  canvas.addEventListener('pointerdown', event => { drag = {x: event.clientX, from, to, moved: false}; });
  canvas.addEventListener('pointermove', event => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      drag.moved = true;
      const by = (drag.x - event.clientX) / canvas.clientWidth * (drag.to - drag.from);
      show(drag.from + by, drag.to + by);
    } else if (!drag) {
      const i = at(event);
      canvas.title = i < 0 ? '' : name(data.tiles[i]);
    }
  });
  window.addEventListener('pointercancel', () => { drag = null; });
  window.addEventListener('pointerup', event => {
    if (drag && !drag.moved && event.target === canvas) choose(at(event));
    drag = null;
  });
  canvas.addEventListener('keydown', event => {
    const step = (to - from) / 8, middle = (from + to) / 2;
    const moves = {
      ArrowLeft: () => show(from - step, to - step), ArrowRight: () => show(from + step, to + step),
      '+': () => zoom(0.8, middle), '-': () => zoom(1.25, middle), 0: () => show(0, data.end),
      n: () => choose((chosen + 1) % data.tiles.length),
      p: () => choose(chosen <= 0 ? data.tiles.length - 1 : chosen - 1),
    };
    if (moves[event.key]) moves[event.key](), event.preventDefault();
  });
  viewer.addEventListener('toggle', draw);
  window.addEventListener('resize', draw);
  viewer.hidden = false;
  draw();
}
