/** Dragging with the main button of a mouse, a pen or a finger. */

/**
 * Call `start` when the pointer goes down on an element. It returns what to do until the pointer is lifted, or null to
 * ignore it.
 * @param {HTMLElement} element
 * @param {(event: PointerEvent) => {move: (event: PointerEvent) => void, end?: () => void, cancel?: () => void} | null} start
 */
export function onDrag(element, start) {
  element.addEventListener("pointerdown", (event) => {
    const drag = event.button ? null : start(event);
    if (!drag) return;
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    const stop = (then) => {
      element.onpointermove = element.onpointerup = element.onpointercancel = null;
      then?.();
    };
    element.onpointermove = drag.move;
    element.onpointerup = () => stop(drag.end);
    element.onpointercancel = () => stop(drag.cancel);
  });
}
