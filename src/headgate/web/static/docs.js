// Renders the API's description with Swagger UI, in the colours that the visitor prefers.

const dark = matchMedia("(prefers-color-scheme: dark)");

function followScheme() {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}

dark.addEventListener("change", followScheme);
followScheme();

const place = document.getElementById("api");

SwaggerUIBundle({
  domNode: place,
  url: place.dataset.description,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  // The key that somebody types in is forgotten with the page.
  persistAuthorization: false,
  // Nothing is sent to a validator elsewhere.
  validatorUrl: null,
});
