// Unpacks the browser that npm brought, and says where it is.
import chromium from "@sparticuz/chromium";

chromium.setGraphicsMode = false;
console.log(await chromium.executablePath());
