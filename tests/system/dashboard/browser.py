"""Chromium without a window, driven over its debugging pipe with nothing but the standard library."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time

_FLAGS = [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions', '--no-proxy-server',
    '--no-default-browser-check', '--mute-audio', '--hide-scrollbars', '--force-color-profile=srgb',
    '--remote-debugging-pipe',
]

_KEYS = {'Enter': (13, '\r'), 'Escape': (27, ''), 'Tab': (9, ''), 'ArrowDown': (40, ''), 'ArrowUp': (38, ''),
         'Home': (36, ''), 'End': (35, ''), ' ': (32, ' ')}


class Failure(Exception):
    """What was promised did not happen."""


def program():
    """The path of Chromium, or None."""
    return shutil.which('chromium')


class Browser:
    """Owns one Chromium and its profile folder; both are gone after close()."""

    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix='holdfast-chromium-')
        commands, self._to = os.pipe()
        self._from, replies = os.pipe()
        # The browser reads 3 and writes 4; ours are moved out of the way of these first.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, replies)]
        silent = os.open(os.devnull, os.O_RDWR)
        words = [program(), *_FLAGS, '--user-data-dir=' + self._profile, 'about:blank']
        environment = {**os.environ, 'HOME': self._profile, 'XDG_CONFIG_HOME': self._profile, 'XDG_CACHE_HOME': self._profile}
        dup = os.POSIX_SPAWN_DUP2
        self.pid = os.posix_spawn(words[0], words, environment, setpgroup=0,
                                  file_actions=[(dup, silent, 0), (dup, silent, 1), (dup, silent, 2), (dup, high[0], 3), (dup, high[1], 4)])
        for end in (commands, replies, silent, *high):
            os.close(end)
        self._rest = b''
        self._serial = 0
        self._listeners = {}

    def close(self):
        """Asks it to end, and kills its process group if it does not."""
        try:
            self.call('Browser.close', seconds=5)
        except (Failure, OSError):
            pass
        deadline = time.monotonic() + 5
        while not self._has_ended() and time.monotonic() < deadline:
            time.sleep(0.02)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not self._has_ended():
            os.waitpid(self.pid, 0)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _has_ended(self):
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def tab(self, width=1280, height=800):
        """A new tab that shares no storage with any other."""
        context = self.call('Target.createBrowserContext')['browserContextId']
        target = self.call('Target.createTarget', url='about:blank', browserContextId=context)['targetId']
        session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        tab = Tab(self, session, context)
        self._listeners[session] = tab
        tab.prepare(width, height)
        return tab

    def drop(self, tab):
        del self._listeners[tab.session]
        self.call('Target.disposeBrowserContext', browserContextId=tab.context)

    def call(self, method, session=None, seconds=20, **parameters):
        """Sends one command and returns its result; events that come meanwhile go to their tabs."""
        self._serial += 1
        serial = self._serial
        message = {'id': serial, 'method': method, 'params': parameters}
        if session:
            message['sessionId'] = session
        os.write(self._to, json.dumps(message).encode() + b'\0')
        deadline = time.monotonic() + seconds
        while True:
            reply = self._read(deadline)
            if reply is None:
                raise Failure(f'{method}: Chromium did not answer')
            if reply.get('id') == serial:
                if 'error' in reply:
                    raise Failure(f'{method}: {reply["error"]["message"]}')
                return reply['result']

    def _read(self, deadline):
        while b'\0' not in self._rest:
            if not select.select([self._from], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            part = os.read(self._from, 1 << 20)
            if not part:
                return None
            self._rest += part
        text, self._rest = self._rest.split(b'\0', 1)
        message = json.loads(text)
        listener = self._listeners.get(message.get('sessionId'))
        if 'method' in message and listener:
            listener.on_event(message['method'], message['params'])
        return message


class Tab:
    """One page as a person has it: looked at, clicked and typed into. Remembers what it asked for and what went wrong."""

    def __init__(self, browser, session, context):
        self._browser = browser
        self.session = session
        self.context = context
        self.requests = []
        self.faults = []

    def prepare(self, width, height):
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self._call(domain + '.enable')
        self._call('Page.addScriptToEvaluateOnNewDocument', source='''
            window.violations = [];
            document.addEventListener('securitypolicyviolation', event => violations.push(event.violatedDirective + ' ' + event.blockedURI));''')
        self.resize(width, height)
        self.prefer('light')

    def on_event(self, method, told):
        if method == 'Network.requestWillBeSent':
            self.requests.append(told['request']['url'])
        elif method == 'Runtime.exceptionThrown':
            details = told['exceptionDetails']
            self.faults.append(details.get('exception', {}).get('description') or details['text'])
        elif method == 'Log.entryAdded' and told['entry']['level'] in ('error', 'warning'):
            self.faults.append(told['entry']['text'])
        elif method == 'Runtime.consoleAPICalled' and told['type'] in ('error', 'warning', 'assert'):
            self.faults.append('console: ' + ' '.join(str(part.get('value')) for part in told['args']))

    def _call(self, method, **parameters):
        return self._browser.call(method, self.session, **parameters)

    # -- what the person has

    def resize(self, width, height):
        self._call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme, motion='no-preference'):
        self._call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme},
                                                           {'name': 'prefers-reduced-motion', 'value': motion}])

    # -- looking

    def go(self, url):
        self._call('Page.navigate', url=url)
        self.wait('document.readyState === "complete"', 'the page loads')

    def js(self, expression):
        reply = self._call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in reply:
            raise Failure(f'{expression}: {reply["exceptionDetails"].get("exception", {}).get("description")}')
        return reply['result'].get('value')

    def wait(self, expression, promise, seconds=20):
        """Polls until the expression is true in the page; returns its value. What throws, as in a page half loaded, is not true yet."""
        deadline = time.monotonic() + seconds
        thrown = ''
        while True:
            try:
                value = self.js(f'(found => found instanceof Node || found)({expression})')
                if value:
                    return value
            except Failure as failure:
                thrown = f' ({failure})'
            if time.monotonic() > deadline:
                raise Failure(f'not within {seconds} s: {promise}{thrown}')
            time.sleep(0.03)

    def text(self, selector):
        return self.js(f'document.querySelector({json.dumps(selector)})?.textContent ?? null')

    def texts(self, selector):
        return self.js(f'[...document.querySelectorAll({json.dumps(selector)})].map(element => element.textContent)')

    def picture(self, file):
        with open(file, 'wb') as out:
            out.write(base64.b64decode(self._call('Page.captureScreenshot', format='png')['data']))

    # -- hands

    def click(self, selector, nth=0):
        """With the mouse, in the middle of what must be visible and on top there."""
        place = self.wait(f'''(() => {{
            const element = document.querySelectorAll({json.dumps(selector)})[{nth}];
            if (!element) return null;
            element.scrollIntoView({{block: 'nearest'}});
            const box = element.getBoundingClientRect();
            const x = box.x + box.width / 2, y = box.y + box.height / 2;
            const top = document.elementFromPoint(x, y);
            return top && (element.contains(top) || top.contains(element)) && box.width > 0 ? {{x, y}} : null;
        }})()''', f'{selector} can be clicked')
        for kind in ('mouseMoved', 'mousePressed', 'mouseReleased'):
            button = 'none' if kind == 'mouseMoved' else 'left'
            self._call('Input.dispatchMouseEvent', type=kind, x=place['x'], y=place['y'], button=button, clickCount=1)

    def press(self, key, shift=False):
        code, text = _KEYS.get(key, (ord(key.upper()) if len(key) == 1 and key.isalnum() else 0, key))
        held = {'key': key, 'windowsVirtualKeyCode': code, 'modifiers': 8 if shift else 0}
        self._call('Input.dispatchKeyEvent', type='keyDown' if text else 'rawKeyDown', text=text, **held)
        self._call('Input.dispatchKeyEvent', type='keyUp', **held)

    def type(self, text):
        for letter in text:
            self.press(letter)
