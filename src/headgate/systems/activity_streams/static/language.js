// Gives uPlot a language that it can format numbers in; load it before uPlot. A browser that was
// started without a locale names a language that is none, such as "en-US@posix", and uPlot throws.
"use strict";

(() => {
  try {
    Intl.getCanonicalLocales(navigator.language);
  } catch {
    const language = new Intl.NumberFormat().resolvedOptions().locale;
    Object.defineProperty(navigator, "language", { value: language });
  }
})();
